package idem

// class is what an error says about the effect.
type class uint8

const (
	unclassified class = iota
	notApplied
	neverApplied
	final
	unknown
)

// classified is an error with its class. It is taken off before the error goes on to the caller.
type classified struct {
	class class
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// NotApplied says of an error that nothing happened: the record is released and the next request may run. From a reconciler
// it says that nothing was found by now, which is believed only after the operation's settle time; see [NeverApplied].
// A nil error stays nil.
func NotApplied(err error) error { return classify(notApplied, err) }

// NeverApplied says of an error that nothing happened and that it no longer can: the downstream closed, cancelled or fenced
// the key. It counts at once, also from a reconciler. A nil error stays nil.
func NeverApplied(err error) error { return classify(neverApplied, err) }

// Final says of an error that it is the operation's answer for good and that nothing happened: it is recorded and replayed as
// a [FailedError] with the same type name and message. A nil error stays nil.
func Final(err error) error { return classify(final, err) }

// Unknown says of an error that the effect may have happened: the record becomes indeterminate, as it does for an error that
// is not classified at all, and for one that is joined of a classified and another one. A nil error stays nil.
func Unknown(err error) error { return classify(unknown, err) }

func classify(c class, err error) error {
	if err == nil {
		return nil
	}
	return &classified{c, err}
}

// classOf looks through wrapped and joined errors for a class. What says two different things, or is joined with an error
// that says nothing, is unknown. It does not look into what an inner guarded call answered: that nothing happened there
// says nothing about the function around it. An error whose methods panic says nothing.
func classOf(err error) (c class) {
	defer func() {
		if recover() != nil {
			c = unclassified
		}
	}()
	return classIn(err, maxDepth)
}

const maxDepth = 100 // of wrapped errors: one that unwraps to itself ends here

func classIn(err error, depth int) class {
	if depth == 0 {
		return unclassified
	}
	switch e := err.(type) {
	case nil:
		return unclassified
	case *answered:
		return unclassified
	case *classified:
		if inner := classIn(e.err, depth-1); inner != unclassified && inner != e.class {
			return unknown
		}
		return e.class
	case interface{ Unwrap() error }:
		return classIn(e.Unwrap(), depth-1)
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		if len(all) == 0 {
			return unclassified
		}
		c := classIn(all[0], depth-1)
		for _, inner := range all[1:] {
			if classIn(inner, depth-1) != c {
				return unknown
			}
		}
		return c
	}
	return unclassified
}

// bare is the function's own error value, as it goes to the caller: without the word it was classified with, so that its type
// name is what the Lambda runtime reports.
func bare(err error) error {
	for {
		c, ok := err.(*classified)
		if !ok {
			return err
		}
		err = c.err
	}
}

// hidden is bare for a guarded call around this one: it does not take a word inside for its own.
func hidden(err error) error {
	if err = bare(err); classOf(err) != unclassified {
		return &answered{err}
	}
	return err
}

// answered hides how an error inside was classified.
type answered struct{ err error }

func (e *answered) Error() string { return e.err.Error() }
func (e *answered) Unwrap() error { return e.err }
