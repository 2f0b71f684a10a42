'use strict'
// Dynalite 4.0.0 as it comes from npm, plus what idem needs of DynamoDB and Dynalite lacks:
//
//   - ReturnValuesOnConditionCheckFailure=ALL_OLD on PutItem, UpdateItem and DeleteItem
//   - TransactWriteItems, all or nothing, with cancellation reasons and ClientRequestToken; TransactGetItems
//   - UpdateTimeToLive, DescribeTimeToLive, and expired items that really disappear
//
// Guaranteed: all goes through Dynalite's own validators, conditions and actions, so an expression means the same inside
// a transaction as outside; nobody sees half a transaction; only the loopback address is bound.
// Not guaranteed: that it is DynamoDB. Say "our own patch" wherever a result rests on it.
//
//   node server.js --port=8000 [--ttlSweepMs=1000] [--path=FOLDER]    memory only without --path

const crypto = require('node:crypto')
const path = require('node:path')
const { Readable } = require('node:stream')

const home = path.dirname(require.resolve('dynalite/package.json'))
const db = require(path.join(home, 'db'))
const validations = require(path.join(home, 'validations'))
const crc32 = require(require.resolve('buffer-crc32', { paths: [home] }))
const rules = operation => require(path.join(home, 'validations', operation))
const action = operation => require(path.join(home, 'actions', operation))

const tokenLife = 10 * 60 * 1000 // "Idempotency", TransactWriteItems in the DynamoDB API reference
const oldestExpiry = 5 * 365 * 86400 // TTL leaves older values alone: "Time to Live", developer guide

// Dynalite speaks in callbacks.
const call = (f, ...args) => new Promise((resolve, reject) => f(...args, (err, value) => err ? reject(err) : resolve(value)))

class ApiError extends Error {
  constructor (type, message, more) { super(message); this.statusCode = 400; this.body = { __type: type, message, ...more } }
}
const invalid = message => new ApiError('com.amazon.coral.validate#ValidationException', message)
const refused = (type, message, more) => new ApiError('com.amazonaws.dynamodb.v20120810#' + type, message, more)

// ALL_OLD. Dynalite asks checkConditional while it holds the item's lock, so `existing` is the item that refused the
// write. Parameters that a type table does not name are dropped before that, hence the second half.
const checkConditional = db.checkConditional
db.checkConditional = (data, existing) => {
  const err = checkConditional(data, existing)
  if (err && existing && data.ReturnValuesOnConditionCheckFailure === 'ALL_OLD') err.body.Item = existing
  return err
}
for (const operation of ['putItem', 'updateItem', 'deleteItem']) {
  rules(operation).types.ReturnValuesOnConditionCheckFailure = { type: 'String', enum: ['ALL_OLD', 'NONE'] }
}

// A Gate is a lock that plain requests share and that a transaction or the sweeper holds alone. Whoever wants it alone
// goes first, so a stream of plain requests cannot starve it.
class Gate {
  constructor () { this.sharing = 0; this.taken = false; this.sharers = []; this.loners = [] }

  share () { return new Promise(resolve => { this.sharers.push(resolve); this.next() }) }

  unshare () { this.sharing--; this.next() }

  async alone (f) {
    await new Promise(resolve => { this.loners.push(resolve); this.next() })
    try { return await f() } finally { this.taken = false; this.next() }
  }

  next () {
    if (this.taken) return
    if (this.loners.length) {
      if (this.sharing === 0) { this.taken = true; this.loners.shift()() }
    } else while (this.sharers.length) { this.sharing++; this.sharers.shift()() }
  }
}

class Extension {
  constructor (store) {
    this.store = store
    this.gate = new Gate()
    this.tokens = new Map() // ClientRequestToken -> {digest, at}
    this.expiry = new Map() // table -> name of its TTL attribute
    this.operations = {
      TransactWriteItems: request => this.gate.alone(() => this.transactWrite(request)),
      TransactGetItems: request => this.gate.alone(() => this.transactGet(request)),
      UpdateTimeToLive: request => this.updateTimeToLive(request),
      DescribeTimeToLive: request => this.describeTimeToLive(request)
    }
  }

  // check puts a request through Dynalite's validators, as its own HTTP handler does.
  check (operation, request) {
    const { types, custom } = rules(operation)
    const data = validations.checkTypes(structuredClone(request), types)
    validations.checkValidations(data, types, custom, this.store)
    return data
  }

  run (operation, data) { return call(action(operation), this.store, data) }

  // step validates one element of a transaction and finds the item it is about.
  async step (element, ReturnConsumedCapacity) {
    const kinds = Object.keys(element).filter(kind => element[kind] != null)
    const kind = kinds[0]
    const operation = { Put: 'putItem', Update: 'updateItem', Delete: 'deleteItem', ConditionCheck: 'deleteItem' }[kind]
    if (kinds.length !== 1 || !operation) throw invalid('TransactItems can only contain one of Check, Put, Update or Delete')
    if (kind === 'ConditionCheck' && !element[kind].ConditionExpression) throw invalid('The expression can not be empty;')
    const data = this.check(operation, { ...element[kind], ReturnConsumedCapacity })
    const table = await call(this.store.getTable, data.TableName)
    const wrong = kind === 'Put' ? db.validateItem(data.Item, table) : db.validateKey(data.Key, table)
    if (wrong) throw wrong
    const key = db.createKey(kind === 'Put' ? data.Item : data.Key, table)
    return { kind, operation, data, table, key, items: this.store.getItemDb(data.TableName) }
  }

  async transactWrite (request) {
    const elements = request.TransactItems || []
    if (elements.length < 1 || elements.length > 100) {
      throw invalid("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: " +
        `Member must have length ${elements.length ? 'less than or equal to 100' : 'greater than or equal to 1'}`)
    }
    const steps = []
    for (const element of elements) {
      const step = await this.step(element, request.ReturnConsumedCapacity)
      if (steps.some(s => s.key === step.key && s.data.TableName === step.data.TableName)) {
        throw invalid('Transaction request cannot include multiple operations on one item')
      }
      steps.push(step)
    }
    const digest = digestOf(elements)
    if (this.seen(request.ClientRequestToken, digest)) return {}

    const reasons = []
    for (const step of steps) {
      step.before = await call(step.items.get, step.key)
      const err = checkConditional(step.data, step.before)
      if (!err) { reasons.push({ Code: 'None' }); continue }
      const Item = step.data.ReturnValuesOnConditionCheckFailure === 'ALL_OLD' ? step.before : undefined
      reasons.push({ Code: 'ConditionalCheckFailed', Message: 'The conditional request failed', Item })
    }
    if (reasons.some(r => r.Code !== 'None')) throw cancelled(reasons)

    const units = new Map()
    const charge = (table, n) => units.set(table, (units.get(table) || 0) + 2 * n) // a transactional write costs double
    const written = []
    try {
      for (const step of steps) {
        if (step.kind === 'ConditionCheck') {
          if (step.data.ReturnConsumedCapacity) charge(step.data.TableName, db.capacityUnits(step.before, false, true))
          continue
        }
        const { ConsumedCapacity } = await this.run(step.operation, step.data)
        written.push(step)
        if (ConsumedCapacity) charge(step.data.TableName, ConsumedCapacity.CapacityUnits)
      }
    } catch (err) {
      // An update whose expression does not fit the item is found out only when it is applied: take back the others.
      for (const { table, items, key, before } of [...written].reverse()) {
        await call(db.updateIndexes, this.store, table, await call(items.get, key), before)
        await (before ? call(items.put, key, before) : call(items.del, key))
      }
      if (!err.body) throw err
      const at = steps.findIndex(s => s.kind !== 'ConditionCheck' && !written.includes(s))
      throw cancelled(steps.map((s, i) => i === at ? { Code: 'ValidationError', Message: err.body.message } : { Code: 'None' }))
    }
    if (request.ClientRequestToken) this.tokens.set(request.ClientRequestToken, { digest, at: Date.now() })
    if (!units.size || request.ReturnConsumedCapacity === 'NONE') return {}
    return { ConsumedCapacity: [...units].map(([TableName, n]) => ({ TableName, CapacityUnits: n, WriteCapacityUnits: n })) }
  }

  // seen says whether this very transaction was done under its token already.
  seen (token, digest) {
    const now = Date.now()
    for (const [t, { at }] of this.tokens) if (now - at > tokenLife) this.tokens.delete(t)
    const earlier = token && this.tokens.get(token)
    if (earlier && earlier.digest !== digest) {
      throw refused('IdempotentParameterMismatchException', 'The token was used with other parameters')
    }
    return Boolean(earlier)
  }

  async transactGet (request) {
    const gets = (request.TransactItems || []).map(({ Get }) => this.check('getItem', { ...Get, ConsistentRead: true }))
    return { Responses: await Promise.all(gets.map(get => this.run('getItem', get).then(({ Item }) => Item ? { Item } : {}))) }
  }

  async updateTimeToLive ({ TableName, TimeToLiveSpecification }) {
    await call(this.store.getTable, TableName)
    const { Enabled, AttributeName } = TimeToLiveSpecification || {}
    if (!AttributeName) throw invalid('TimeToLiveSpecification needs an AttributeName')
    if (Boolean(Enabled) === this.expiry.has(TableName)) throw invalid(`TimeToLive is already ${Enabled ? 'enabled' : 'disabled'}`)
    Enabled ? this.expiry.set(TableName, AttributeName) : this.expiry.delete(TableName)
    return { TimeToLiveSpecification }
  }

  async describeTimeToLive ({ TableName }) {
    await call(this.store.getTable, TableName)
    const AttributeName = this.expiry.get(TableName)
    return { TimeToLiveDescription: { TimeToLiveStatus: AttributeName ? 'ENABLED' : 'DISABLED', AttributeName } }
  }

  // sweep deletes what has expired, each item on the condition that its expiry is still the one that was read.
  async sweep () {
    for (const [TableName, attribute] of this.expiry) {
      const table = await call(this.store.getTable, TableName, false).catch(() => null)
      if (!table) { this.expiry.delete(TableName); continue }
      let ExclusiveStartKey
      do {
        const page = await this.run('scan', this.check('scan', { TableName, ExclusiveStartKey }))
        for (const item of page.Items) await this.expire(table, item, attribute)
        ExclusiveStartKey = page.LastEvaluatedKey
      } while (ExclusiveStartKey)
    }
  }

  async expire (table, item, attribute) {
    const N = item[attribute] && item[attribute].N
    const now = Date.now() / 1000
    if (N === undefined || Number(N) >= now || Number(N) < now - oldestExpiry) return
    const remove = this.check('deleteItem', {
      TableName: table.TableName,
      Key: Object.fromEntries(table.KeySchema.map(({ AttributeName }) => [AttributeName, item[AttributeName]])),
      ConditionExpression: '#at = :at', ExpressionAttributeNames: { '#at': attribute }, ExpressionAttributeValues: { ':at': { N } }
    })
    await this.gate.alone(() => this.run('deleteItem', remove)).catch(err => { if (!err.body) throw err })
  }
}

// digestOf is of a form with sorted members: the Go SDK writes maps in random order, also when it sends again.
function digestOf (elements) {
  const sorted = (_, value) => value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(Object.keys(value).sort().map(name => [name, value[name]]))
    : value
  return crypto.createHash('sha256').update(JSON.stringify(elements, sorted)).digest('hex')
}

function cancelled (CancellationReasons) {
  const Message = 'Transaction cancelled, please refer cancellation reasons for specific reasons ['
  const codes = CancellationReasons.map(r => r.Code).join(', ')
  return refused('TransactionCanceledException', undefined, { Message: Message + codes + ']', CancellationReasons })
}

// answer serves one of our own operations in the form of Dynalite's handler.
async function answer (operation, request, res) {
  let status = 200
  let body
  try {
    body = await operation(JSON.parse(request.toString()))
  } catch (err) {
    if (!err.body) console.error(err)
    status = err.body ? err.statusCode : 500
    body = err.body || { __type: 'com.amazonaws.dynamodb.v20120810#InternalServerError', message: String(err) }
  }
  const text = JSON.stringify(body)
  const headers = { 'Content-Type': 'application/x-amz-json-1.0', 'Content-Length': Buffer.byteLength(text) }
  res.writeHead(status, { ...headers, 'x-amz-crc32': crc32.unsigned(text), 'x-amzn-RequestId': crypto.randomUUID() }).end(text)
}

function serve (options) {
  let store
  const create = db.create
  db.create = given => (store = create(given))
  const server = require('dynalite')({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0, path: options.path })
  db.create = create
  const extension = new Extension(store)
  const [plain] = server.listeners('request')
  server.removeAllListeners('request')
  server.on('request', async (req, res) => {
    const body = await req.toArray().then(Buffer.concat, () => null)
    if (!body) return // the client hung up before it had said what it wants
    const operation = extension.operations[(req.headers['x-amz-target'] || '').split('.')[1]]
    if (operation) return answer(operation, body, res)
    await extension.gate.share()
    const { end } = res
    res.end = (...args) => { res.end = end; extension.gate.unshare(); return res.end(...args) }
    // Dynalite gets a copy: its own handler throws, which ends the process, when a client hangs up on a request under way.
    plain(Object.assign(Readable.from([body]), { method: req.method, url: req.url, headers: req.headers }), res)
  })
  const every = Number(options.ttlSweepMs || 1000)
  const again = () => setTimeout(() => extension.sweep().catch(console.error).then(again), every).unref()
  again()
  server.listen(Number(options.port || 0), '127.0.0.1', () => console.log('http://127.0.0.1:' + server.address().port))
}

serve(Object.fromEntries(process.argv.slice(2).map(word => word.replace(/^--/, '').split('='))))
