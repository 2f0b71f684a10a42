// Bench measures what this library adds to the calls it makes, against the same SDK calls made bare in the same run on the same
// engine, and prints one table of ratios:
//
//	go run ./localstack exec -- go run ./internal/bench
//
// The engine is dynoxide if IDEM_TEST_DYNAMODB names it, else the first. Both sides use the same client settings, the same table
// and items of the same size, and take turns. The bare side's values are made once, so all that it pays for is the SDK; rows
// "against values made anew" compare with a caller who has something else to say in every call.
//
// Results are sealed by InsecureCleartext: what a key service costs is not in the table. CPU is user and system time of this
// process, by getrusage; the engine is another process, but on a machine with few cores it is in the way of throughput and
// time. Ratios are medians over rounds of the ratio within a round, with their quartiles.
package main
