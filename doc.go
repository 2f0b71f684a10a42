// Package idem makes an effect happen at most once per (tenant, operation, key), and answers every request for it with the one
// outcome that was recorded.
//
// An [Operation] guards a function. [Operation.Do] stores a claim before the function runs and its outcome before it returns;
// whoever comes later is answered from the record. What nobody knows, because a process died or a request timed out, is held
// as indeterminate and never run again on a guess: it is reconciled, by the operation's [Recovery] or by an operator.
//
//	op, err := idem.New[Charge](store, sealer, "charge", &idem.Options{Recover: idem.Reconcile(15*time.Minute, ask)})
//	…
//	res, err := op.Do(ctx, idem.Request{Tenant: merchant, Key: order.ID, Payload: order}, func(ctx context.Context) (Charge, error) {
//		return bank.Charge(ctx, idem.AttemptFrom(ctx).DownstreamKey(), order)
//	})
//
// Package dynamo has the store on DynamoDB, lambdawrap decorates Lambda handlers, idemtest helps to test.
//
// # What is promised
//
//   - At most one effect. The function runs again for a key only when it is known that the earlier run did nothing: the function
//     said so, it provably never began, or a reconciler or an operator established it; or where the operation says that the
//     downstream makes repeats harmless ([Rerun]). A lapsed lease, a crash, a timeout, a panic or an error that was not
//     classified is not such knowledge.
//   - One outcome. Everybody who gets a success for a key gets the same bytes, the first caller included.
//   - Durable before answered. A result is returned only after its receipt is stored.
//   - Nothing leaks across. No other tenant, operation or payload can read, replay, release or overwrite a record.
//   - It forgets on time, never early. An outcome is kept for Retain; what is unresolved is kept until it is resolved.
//   - It survives its own recovery. After a restore of the table, a key whose record was lost is not taken for new.
//
// # What is not
//
// That a downstream did nothing it does not tell about. An order between keys. Safety where somebody deletes records by hand.
// Exactly one execution: it is at most one execution plus reconciliation, which gives one effect. Protection against a
// function that goes on past its deadline and then begins its effect, unless the downstream honours [Attempt.DownstreamKey] or
// [Attempt.Fence].
//
// # Errors
//
// Each outcome that is not a result is an error type of its own, found by errors.AsType; [RetryAfter] says of each whether
// sending the same again helps. A function says what its own errors mean with [NotApplied], [NeverApplied], [Final] and [Unknown].
//
// # Time
//
// The clock that judges leases, retentions and settle times is the store's. The caller's clock is used for its own deadlines and
// for nothing that could let a function run.
//
// # Compatibility
//
// What is stored today is read by every later version: records, digests, fingerprints and bindings have vectors in testdata that
// are added to and never changed. A record of a later version that this one does not know is an error that runs nothing.
package idem
