// Mutate drops or flips one rule of the protocol at a time and runs the tests that should notice:
//
//	go run ./internal/mutate              # all; goes on where an earlier run was stopped
//	go run ./internal/mutate -list        # what there is
//	go run ./internal/mutate -only begin  # those with "begin" in name, file or rule
//	go run ./internal/mutate -exploration # which of them the exploration of the protocol notices by itself
//
// The rules are those of the transition function, of the test by which a write is known for one's own, and of what an answer of
// DynamoDB means. Each mutant is a snippet that occurs once, and what takes its place; it is compiled by an overlay, so nothing
// is copied and nothing is changed. The package's tests run first, stopping at the first failure, which must fail once more by
// itself; then the exploration.
//
// A rule that can be dropped without a test failing lacks a test, or is no rule. Which of the two, the table says: it fails if a
// mutant survives that nobody argued, and if one is killed that somebody did. These survive:
//
//   - step.go, Rerun of what started nobody knows when: a second lock: the zero time is longer ago than any downstream remembers
//   - do.go, after a lost answer an own write is not known: what is returned is the same record, and who proposed the write compares its version once more
//   - do.go, the wall clock does not end a run: no test can freeze the monotonic clock of its own process
//   - do.go, the monotonic clock does not end a run: no test can set the wall clock of its own process
//   - claim.go, a duplicate waits though its caller left: the claim path refuses a caller that left before anything is written, with the same error
//   - attempt.go, begin writes although it is not durable: the claim has begun already, so step answers "already" before anything is written
//   - attempt.go, a second begin writes again: step answers "already" before anything is written
//   - finish.go, evidence of an empty result says nothing: a nil or empty json.RawMessage ends up as null either way
//   - resolve.go, a verdict on what is not in doubt: step refuses it as well; what is saved is a call of the key service, and the message says why
//   - dynamo/classify.go, a contradiction is read by its code: an error of our own is in no other row, so it is unclear all the same; the message says what happened
//   - dynamo/classify.go, a timeout is what the SDK calls it: a lost answer is unclear and repeated at once as well; the message says what happened
//   - dynamo/retry.go, idle connections are not watched: the start of a request is noted as well: only after one that took half a minute is a connection closed for nothing
//
// The exploration by itself misses some that only save a question or a write, or have no field there: -exploration lists them. The
// table TestStepGrid holds step to every cell, those included.
package main
