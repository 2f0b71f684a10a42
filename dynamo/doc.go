// Package dynamo keeps the records of package idem in a DynamoDB table, an item each.
//
//	store, err := dynamo.New(dynamodb.NewFromConfig(cfg), "idem-records", nil)
//
// # The table
//
// It has the partition key "pk", a string, no sort key, and TTL on "ex"; template.yaml has it with everything else that it should
// have. It belongs to idem alone. This package neither creates nor changes a table.
//
// # What is promised
//
// [Store] is an [idem.Store]: every write is an UpdateItem whose condition is that no item has the key, or that the item carries
// the version that was seen, and is repeated here, not by the SDK, until it is known what became of it. A warm store sends one
// request for every Create, Swap and Load. It calls UpdateItem, GetItem and DescribeTable, and these three are the policy of the
// function's role; "1#TENANT#*" is the pattern for dynamodb:LeadingKeys, and "!gen" has to be readable.
//
// A receipt above [Options.Inline] goes to items beside the record first, one more request for each 384 KiB, and a replay reads them.
// Refusals by such a record cost one unit. Items that a crash leaves behind belong to no record, and TTL takes them.
//
// The only clock in a record is DynamoDB's, taken from the Date of its answers, to the second.
//
// Items written by one version are read by every later one, and what a later one adds stays when an earlier one writes. What a
// version does not understand it refuses to read.
//
// # Effects in DynamoDB, and tools
//
// [Transact] writes the effect together with its receipt; it needs TransactWriteItems on top. [Admin] lists records for sweeps and
// operators; it needs Scan, and Query on the index.
//
// # After a restore
//
// A table that was restored or copied has forgotten what happened since. A store refuses to serve from it, with an error that wraps
// [ErrNotAdopted], until an operator has run "idem adopt". It looks at the control item "!gen" and at DescribeTable when it is first
// used, and again when a minute has passed, by the wall clock or by DynamoDB's, whichever says so.
//
// # Errors
//
// An error that wraps [idem.ErrAmbiguous] leaves open whether a write was or will be applied; any other says that it was not and
// will not. All have a method Retryable() bool. They name DynamoDB's error code and request id, and hold the SDK's error for
// errors.As; their text has no key, tenant or payload.
package dynamo
