package main

import (
	"errors"
	"fmt"
)

func argued(of []mutant) []mutant {
	var some []mutant
	for _, m := range of {
		if m.why != "" {
			some = append(some, m)
		}
	}
	return some
}

// verdict is one line about a mutant.
func (m mutant) verdict(r result) string {
	what := fmt.Sprintf("killed    %-62s by %s: %.120s", m.name, r.By, r.Says)
	if r.By == "" {
		what = fmt.Sprintf("survives  %-62s %s", m.name, m.why)
	}
	if m.unexpected(r) {
		what = "UNEXPECTED " + what
	}
	return fmt.Sprintf("%s (%.1f s)", what, float64(r.Millis)/1000)
}

// unexpected is a survivor that nobody argued, or one that is argued although a test fails.
func (m mutant) unexpected(r result) bool { return !m.alone && (r.By == "") != (m.why != "") }

// report prints the table of survivors and what is not as it should be.
func report(of []mutant, results map[string]result) error {
	var killed, survive int
	var bad []error
	for _, m := range of {
		r, ok := results[m.name]
		switch {
		case !ok:
			continue
		case r.By != "":
			killed++
		default:
			survive++
		}
		if m.unexpected(r) {
			bad = append(bad, errors.New(m.verdict(r)))
		}
	}
	if some := argued(of); len(some) > 0 {
		fmt.Print("\nSurvivors, and why nothing has to notice them:\n\n", survivors(some))
	}
	fmt.Printf("\n%d mutants: %d killed, %d survive, %d not as expected, %d not judged\n", len(of), killed, survive, len(bad), len(of)-killed-survive)
	return errors.Join(bad...)
}

// survivors is the table in doc.go.
func survivors(of []mutant) (text string) {
	for _, m := range of {
		text += fmt.Sprintf("   - %s, %s: %s\n", m.file, m.name, m.why)
	}
	return text
}
