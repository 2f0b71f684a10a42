package ledger

import (
	"fmt"
	"strings"
	"time"
)

// A behaviour is what the server does with one charge, beside charging it properly.
type behaviour struct {
	kind  string
	delay time.Duration
}

// The kinds of behaviour; those of delayed are written with a duration, as "late:3s".
const (
	proper         = "proper"           // charge and answer; fills a place in the queue
	late           = "late"             // charge, answer after the delay
	drop           = "drop"             // charge, close the connection without an answer
	refuse         = "refuse"           // 402 card_declined, nothing charged
	fail           = "500"              // 500, nothing charged
	failCharged    = "500-charged"      // 500 after charging
	unavailable    = "503"              // 503, nothing charged
	down           = "down"             // close the connection unread, nothing charged
	receiveLate    = "receive-late"     // close the connection, charge after the delay
	receiveLate504 = "receive-late-504" // answer 504, charge after the delay
)

var delayed = map[string]bool{
	proper: false, late: true, drop: false, refuse: false, fail: false, failCharged: false, unavailable: false,
	down: false, receiveLate: true, receiveLate504: true,
}

func parseBehaviour(text string) (behaviour, error) {
	kind, wait, hasDelay := strings.Cut(text, ":")
	needsDelay, known := delayed[kind]
	if !known {
		return behaviour{}, fmt.Errorf("unknown behaviour %q", text)
	}
	if needsDelay != hasDelay {
		return behaviour{}, fmt.Errorf("behaviour %q: a delay belongs to late, receive-late and receive-late-504", text)
	}
	b := behaviour{kind: kind}
	if hasDelay {
		d, err := time.ParseDuration(wait)
		if err != nil || d < 0 {
			return behaviour{}, fmt.Errorf("behaviour %q: no duration", text)
		}
		b.delay = d
	}
	return b, nil
}

// parseBehaviours reads all or nothing, so that a misspelt one leaves the queue as it was.
func parseBehaviours(texts []string) ([]behaviour, error) {
	bs := make([]behaviour, len(texts))
	for i, text := range texts {
		b, err := parseBehaviour(text)
		if err != nil {
			return nil, err
		}
		bs[i] = b
	}
	return bs, nil
}
