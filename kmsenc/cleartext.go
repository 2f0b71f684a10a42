package kmsenc

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// clearMagic is how texts of idem.InsecureCleartext begin.
var clearMagic = []byte("IDEMCLEAR1")

// maxCleartext is how far ahead the end of a migration may be: somewhat longer than the longest that records are kept for by
// default, 90 days.
const maxCleartext = 100 * 24 * time.Hour

// openCleartext gives a text that was never sealed, while the migration lasts. Nothing tells when or by whom it was written, so
// what protects is only the end: a time, not a switch that somebody forgets.
func (s *Sealer) openCleartext(dst, text []byte) ([]byte, error) {
	if !time.Now().Round(0).Before(s.cleartextUntil) {
		return nil, malformed("it is clear text, and Options.InsecureCleartextUntil does not cover it")
	}
	return slices.Concat(dst, text[len(clearMagic):]), nil
}

func isCleartext(text []byte) bool { return bytes.HasPrefix(text, clearMagic) }

func checkCleartext(until time.Time) error {
	if time.Until(until.Round(0)) > maxCleartext {
		return fmt.Errorf("Options.InsecureCleartextUntil is more than %d days away", maxCleartext/(24*time.Hour))
	}
	return nil
}
