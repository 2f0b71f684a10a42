package idem_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// scenario is one way in which a store of idempotency keys has gone wrong somewhere. Its tests are named by folder and function; the
// root's own, which are here alone, by the function itself.
type scenario struct {
	id, what string
	tests    string // separated by spaces
	run      func(*testing.T)
}

// S37 to S43 are the restore's: they come with its tools.
var scenarios = []scenario{
	// Crash windows.
	{"S1", "crash after the claim was applied, before its answer", "localstack/endtoend.TestKilledAtEveryWindow idemtest.TestHandlersThatHaveOneEffect TestClaimThatEndsAmbiguousRunsNothing", nil},
	{"S2", "crash after the claim, before the effect", "localstack/endtoend.TestKilledAtEveryWindow TestNotFoundIsNotNever TestCrashBeforeADurableBeginRunsAgain", nil},
	{"S3", "crash during the effect", "localstack/endtoend.TestKilledAtEveryWindow idemtest.TestHandlersThatHaveOneEffect", nil},
	{"S4", "crash after the effect, before its record", "TestCrashAfterTheEffectIsHeldAndNeverRunAgain localstack/endtoend.TestKilledAtEveryWindow", nil},
	{"S5", "the record of the outcome applied, its answer lost", "TestOutcomeAppliedAndAnswerLostIsAnswered localstack/endtoend.TestFaultMatrix", nil},
	{"S6", "crash after the record, before the caller's answer", "localstack/endtoend.TestKilledAtEveryWindow", nil},
	{"S7", "crash between the parts of a large result and its record", "dynamo.TestCrashBetweenBodiesAndRecord", nil},
	{"S8", "panic after the effect", "TestPanicGoesOnAndIsUnknown idemtest.TestHandlersThatHaveOneEffect", panicAfterTheEffect},
	{"S9", "error after the effect", "TestWhatAnErrorMeans", errorAfterTheEffect},
	{"S10", "killed at the timeout, without a chance to say anything", "localstack/endtoend.TestTimedOutAfterTheCharge", nil},

	// Retries and duplicates.
	{"S11", "the claim meets itself", "TestClaimAppliedAndAnswerLostRunsOnce localstack/endtoend.TestFaultMatrix dynamo.TestAnswers", nil},
	{"S12", "the record of the outcome meets itself, also after a note", "localstack/endtoend.TestFaultMatrix TestOutcomeAppliedAndAnswerLostIsAnswered", nil},
	{"S13", "many first requests at once", "TestManyAtOnce localstack/endtoend.TestOneRunPerKeyAndEqualAnswers localstack/endtoend.TestLinearizableUnderFaults", nil},
	{"S14", "duplicate while the first is running", "TestConcurrentDuplicateIsToldUntilWhen", nil},
	{"S15", "a claim arrives again after its release", "dynamo.TestLateRequest", claimArrivesAgainAfterItsRelease},
	{"S16", "the record of an outcome arrives after the reconciler's", "TestCompletionThatArrivesLateChangesNothing", nil},
	{"S17", "a transaction arrives again when its token is forgotten", "TestCommitThatStaysAmbiguousDidNothingOrEverything", transactionArrivesAgain},
	{"S18", "a queue redelivers while the function is running", "TestConcurrentDuplicateIsToldUntilWhen", redeliveredWhileRunning},
	{"S19", "an asynchronous invocation is retried one and two minutes after a timeout", "localstack/endtoend.TestTimedOutAfterTheCharge", retriedAfterATimeout},

	// Zombies and clocks.
	{"S20", "the owner finishes after its lease, and nobody took over", "TestLateOwnersTruthIsWelcome", nil},
	{"S21", "the owner finishes after somebody took over", "TestFencedOffOwnerLeavesEvidence TestBeginIsRefusedOnceSomebodyTookOver", nil},
	{"S22", "the owner begins its effect after an operator released the key", "TestSuccessAfterAReleaseMakesADoubt", zombieAfterARelease},
	{"S23", "the caller's clock is five minutes behind at the claim", "", clockBehindAtTheClaim},
	{"S24", "the caller's clock is five minutes ahead at a takeover", "", clockAheadAtATakeover},
	{"S25", "frozen between the claim and the effect", "localstack/endtoend.TestPausedOwnerGoesOnAfterItsLease TestBeginIsRefusedAfterTheDeadline idemtest.TestHandlersThatHaveOneEffect", nil},
	{"S26", "a goroutine goes on in the next invocation", "TestBeginIsRefusedAfterTheFunctionReturned", nil},
	{"S27", "two invocations at once in one process", "TestManyAtOnce localstack/endtoend.TestLinearizableUnderFaults", nil},

	// Content.
	{"S28", "another payload under the key, in every state", "TestFingerprintIsCheckedInEveryState", nil},
	{"S29", "another tenant, another operation", "TestTenantsAndOperationsAreApart localstack/endtoend.TestTenantsAndOperationsAreApart", nil},
	{"S30", "no key", "TestBadRequestsAreRefusedBeforeAnythingIsWritten", nil},
	{"S31", "a result that is too large", "TestResultAboveMaxResultIsCompletedAndNotKept dynamo.TestLargeResults", nil},
	{"S32", "a payload that is written differently each time", "TestWhatCountsAsTheSamePayload", nil},
	{"S33", "results that are nil or empty, and errors with a type", "TestResultsSurviveByteForByte TestFinalFailureIsReplayedWithTypeAndMessage", nil},

	// Expiry.
	{"S34", "past its expiry, and still there", "TestOutcomeIsReplayedUntilItExpiresAndThenTheKeyIsNew", nil},
	{"S35", "removed between the read and the write", "dynamo.TestRefusalWithoutItem", removedBetweenReadAndWrite},
	{"S36", "an expiry that is no time in seconds, or years away", "dynamo.TestVectors internal/sam.TestTemplateHasTheRecordsTable", expiryIsATime},

	// Load and abuse.
	{"S44", "a claim that is throttled all the time", "TestUnavailableStoreRunsNothing localstack/endtoend.TestFaultMatrix", nil},
	{"S45", "the record of an outcome is throttled until the deadline", "TestOutcomeThatIsNotRecordedIsSaid localstack/endtoend.TestFaultMatrix", nil},
	{"S46", "a storm on one key", "TestRequestsPerPath", stormOnOneKey},
	{"S47", "replays of a large result", "dynamo.TestLargeResults", nil},
	{"S48", "a tenant opens one record after the other", "", tenantOpensRecords},
	{"S49", "the service's name is not found", "localstack/endtoend.TestFaultMatrix", nil},
	{"S50", "access denied, or no table", "TestStoreThatRefusesForGoodIsNotRetried dynamo.TestCodes localstack/endtoend.TestDeniedAndNoTable", nil},
}

// Every scenario has a test: here, or by name, and then one that is there.
func TestScenarios(t *testing.T) {
	there := testsOf(t, ".")
	seen := make(map[string]bool)
	for _, s := range scenarios {
		if seen[s.id] {
			t.Errorf("%s is there twice", s.id)
		}
		seen[s.id] = true
		if s.tests == "" && s.run == nil {
			t.Errorf("%s, %s: no test", s.id, s.what)
		}
		for name := range strings.FieldsSeq(s.tests) {
			if !there[name] {
				t.Errorf("%s, %s: there is no %s", s.id, s.what, name)
			}
		}
		if s.run != nil {
			t.Run(s.id+", "+s.what, s.run)
		}
	}
	if len(scenarios) != 36+7 {
		t.Errorf("%d scenarios, want S1 to S36 and S44 to S50", len(scenarios))
	}
}

// testsOf finds every test function under a folder, as folder.TestName.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				name := f.Name.Name
				if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." {
					name = dir + "." + name
				}
				found[name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
