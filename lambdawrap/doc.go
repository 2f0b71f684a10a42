// Package lambdawrap makes existing Lambda handlers idempotent.
//
// [Wrap] decorates a typed handler. The handler stays as it is; what identifies a request is told by a function beside it.
// The fingerprint is of the event as it was sent, and a replay answers with the bytes that were answered first.
//
// # Which adapter
//
//   - HTTP: [APIGatewayV2] (HTTP APIs), [APIGatewayV1] (REST APIs), [FunctionURL], [ALB], and [HTTP] around an http.Handler. The
//     key comes from the client's Idempotency-Key header, the tenant from a function that is required: [JWTSubject], [IAMCaller],
//     [APIKeyID], [TenantID], or one of your own.
//   - SQS: [SQS], with partial failures.
//   - Streams: [Kinesis], [DynamoDBStream] and [Kafka], in order per shard or partition, with partial failures. [KinesisID],
//     [DynamoDBStreamID] and [KafkaID] identify their records; a key out of the record is better where there is one.
//   - Events that carry an identity: Wrap with [SNSID], [S3ID], [EventBridgeID] or [AsyncID].
//   - CloudFormation: [CustomResource].
//   - Everything else, Step Functions tasks and direct invocations among it: Wrap with a function that takes the key from the
//     event. Step Functions tells nothing of itself: pass $$.Execution.Id and the state's name in the payload, never the retry count.
//
// An event of one source that arrives at the adapter of another is refused with a RequestError before anything is claimed.
//
// # What Lambda sees
//
// A refusal is one of the error types of package idem, and their names are the errorType that Step Functions' Retry and Catch
// match: InProgressError, MismatchError, IndeterminateError, UnavailableError, and so on. A handler's own error is returned as
// it is. A final failure has the type name of the first error on every delivery.
//
// # Several invocations in one process
//
// What this package returns may serve any number of invocations at once, as under AWS_LAMBDA_MAX_CONCURRENCY: nothing is kept
// between invocations or shared by them, no buffer is used twice.
package lambdawrap
