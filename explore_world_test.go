package idem

import "fmt"

const (
	actors = 4 // deliveries of the request, and last the sweeper or an operator
	lives  = 2
	other  = actors - 1
)

// stage is where an actor stands.
type stage uint8

const (
	idle    stage = iota
	calling       // a write is to be sent, or was sent and not answered
	loading       // a read after an ambiguous write
	asking        // the provider
	running       // the function
	gone
)

// actor is one delivery of the request, or the sweeper, or an operator.
type actor struct {
	at           stage
	want         intent
	move         move
	seen         rec
	mine         uint8 // version of the write under way
	sends        uint8 // how often it was sent without an answer
	gen          uint8 // the generation it knows
	fence, life  uint8 // of its own claim
	l            uint8 // ghost: the life it runs in
	spent        bool  // settled: neither it nor a request of it reaches the provider any more
	late         bool  // it reported its deadline, and goes on
	goesOn       bool  // with the function after this write
	noted, begun bool
	wrote        bool // ghost: its outcome was recorded
	shown        bool // an operator: decides about what was shown
}

// message is a write on the wire.
type message struct {
	on, create, tx bool
	by             uint8
	seen           uint8
	to             rec
}

// flight is a request to the provider that is under way though nobody waits for it.
type flight struct {
	on       bool
	fence, l uint8
}

// world is one state of everything; comparable, so that it is recognised.
type world struct {
	rec, bak           rec
	a                  [actors]actor
	net                [2]message
	fly                [actors]flight
	eff, led, closed   [lives]uint8 // effects; whose charge the provider has; fences it refuses up to
	ans                [lives]rec   // ghost: the first answer
	done               [lives]uint8 // ghost: values recorded as completed
	maxFence, maxBy    uint8        // ghost
	gen, tick, bakTick uint8
	l, bakL            uint8
	faults, ttl        int8
	backups, restores  int8
	sweeps, operators  int8
	rewraps            int8
	excused            bool // something happened that may leave a doubt
	bad                property
}

// property of the protocol that was violated.
type property uint8

const (
	holds property = iota
	oneEffect
	oneOutcome
	durableFirst
	fenceRises
	neverStuck
	noFalseAlarm
	truthWelcome
	trueRecord
	terminalStays
)

var properties = [...]string{"holds", "one effect", "one outcome", "durable before answered", "fence rises", "never stuck", "no false alarm",
	"a late owner's truth is welcome", "the record is true", "terminal stays"}

func (w *world) violates(p property) {
	if w.bad == holds {
		w.bad = p
	}
}

// explorer gives the successors of one state.
type explorer struct {
	*setting
	out   []world
	asked map[question]reply
	say   bool
	note  string
	text  []string
	reach [reaches]int
}

// What must have been reached, so that no property holds for want of the case.
const (
	lateWhileAsked = iota
	twoAskers
	verdictAgain
	verdictStale
	claimOverwritten
	beginOverwritten
	outcomeRewritten
	reaches
)

var reached = [reaches]string{
	"a late owner's outcome is recorded while somebody asks",
	"two ask at the same time",
	"a verdict finds the record changed, the owner unchanged",
	"a verdict finds another owner's doubt",
	"a claim was applied and overwritten before its sender knew",
	"a begin was applied and overwritten before its sender knew",
	"an outcome was recorded and rewrapped before its sender knew",
}

func (x *explorer) emit(w world) {
	x.out = append(x.out, w)
	if x.say {
		x.text = append(x.text, x.note)
	}
}

func (x *explorer) log(format string, args ...any) {
	if x.say {
		x.note += fmt.Sprintf(format, args...)
	}
}

// branch runs f on a copy of the world; what f logs is its own.
func (x *explorer) branch(w world, f func(*world)) {
	note := x.note
	f(&w)
	x.note = note
}

var actorNames = [actors]string{"A", "B", "C", "O"}

// next gives every state that may follow w.
func (x *explorer) next(w world) {
	do := func(note string, f func(*world)) {
		x.note = note
		x.branch(w, f)
	}
	for i := range w.a {
		a := &w.a[i]
		if a.at == gone || a.at == idle && !x.mayStart(&w, i) {
			continue
		}
		if a.at != idle {
			do(actorNames[i]+" crashes", func(w *world) { w.excused = true; x.end(*w, i) })
		}
		x.note = actorNames[i] + ": "
		x.act(w, i)
	}
	for i, m := range w.net {
		if m.on {
			do("a late write of "+actorNames[m.by]+" arrives", func(w *world) {
				w.net[i] = message{}
				x.apply(w, m)
				x.emit(*w)
			})
			do("a late write of "+actorNames[m.by]+" never arrives", func(w *world) { w.net[i] = message{}; x.emit(*w) })
		}
	}
	for i, f := range w.fly {
		if f.on {
			do("a late request of "+actorNames[i]+" reaches the provider", func(w *world) {
				w.fly[i] = flight{}
				x.effect(w, i, f.fence, f.l)
				x.emit(*w)
			})
			do("a late request of "+actorNames[i]+" is lost", func(w *world) { w.fly[i] = flight{}; x.emit(*w) })
		}
	}
	closed := w.rec.State.terminal() || w.rec.State == Released
	if w.ttl > 0 && closed && !w.rec.Expired && w.quiet() {
		do("the retention is over", func(w *world) { w.ttl--; w.tick++; w.rec.Expired = true; x.emit(*w) })
	}
	if w.rec.Expired {
		do("TTL deletes", func(w *world) {
			if w.rec.State.terminal() {
				w.l = min(max(w.l, w.rec.L+1), lives-1)
			}
			w.rec = rec{}
			x.emit(*w)
		})
	}
	if w.rewraps > 0 && w.rec.State.terminal() {
		do("an operator rewraps or erases the receipt", func(w *world) { w.rewraps--; w.rec.Version = w.fresh(); x.emit(*w) })
	}
	if w.backups > 0 {
		do("backup", func(w *world) { w.backups--; w.bak, w.bakTick = w.rec, w.tick; x.emit(*w) })
	}
	if w.backups == 0 && w.restores > 0 {
		do("restored under a new name and adopted", func(w *world) {
			w.restores--
			w.gen++
			w.rec, w.bak = w.bak, rec{}
			w.rec.Expired = w.rec.Expired || w.tick > w.bakTick && (w.rec.State.terminal() || w.rec.State == Released)
			w.net = [2]message{}
			w.excused = true
			x.emit(*w)
		})
	}
}

// quiet: no signed request outlives a retention.
func (w *world) quiet() bool {
	for _, a := range w.a {
		if a.sends > 0 || a.at == loading {
			return false
		}
	}
	return !w.net[0].on && !w.net[1].on
}

// effect: the provider gets a request. It keeps what it promised to refuse.
func (x *explorer) effect(w *world, i int, fence, l uint8) bool {
	if fence <= w.closed[l] {
		return false
	}
	w.eff[l] = min(w.eff[l]+1, 2)
	if w.led[l] == 0 {
		w.led[l] = uint8(i + 1)
	}
	if w.eff[l] > 1 && x.recovery != rerun {
		w.violates(oneEffect)
	}
	return true
}

// apply is the store: one compare-and-swap.
func (x *explorer) apply(w *world, m message) bool {
	r := &w.rec
	if m.create != (r.State == 0) || !m.create && r.Version != m.seen {
		return false
	}
	to := m.to
	if r.State == 0 {
		to.L = w.l
	}
	if r.State.terminal() && !r.Expired && (to.State != r.State || to.Value != r.Value) {
		w.violates(terminalStays)
	}
	if to.O == to.Fence && (to.State == Pending && !(r.State == Pending && r.Fence == to.Fence) || m.tx) { // a new owner
		if to.Fence < w.maxFence || to.Fence == w.maxFence && w.maxBy != m.by {
			w.violates(fenceRises)
		}
		w.maxFence, w.maxBy = to.Fence, m.by
	}
	w.l = max(w.l, to.L)
	if to.State == Completed {
		w.done[to.L] |= 1 << to.Value
	}
	if a := &w.a[m.by]; to.Version == a.mine && (a.want.what == complete || a.want.what == fail) {
		a.wrote = true
		if to.State == Completed && r.State == Indeterminate {
			for j := range w.a {
				if j != int(m.by) && w.a[j].at == asking {
					x.reach[lateWhileAsked]++
				}
			}
		}
	}
	*r = to
	if m.tx {
		x.effect(w, int(m.by), to.Fence, to.L)
	}
	return true
}

// check looks at a state for itself.
func (x *explorer) check(w *world) {
	r := w.rec
	restored := w.gen > 0
	done := r.State != 0 && w.eff[r.L] > 0
	if x.recovery != rerun {
		switch {
		case r.State == Failed && done && !(restored && r.Expired), // expired in the image: the lost window's effect
			r.State == Released && done && !(restored && r.Gen < w.gen), // not quarantined yet: likewise
			r.State == 0 && w.eff[w.l] > 0 && !restored:
			w.violates(trueRecord)
		}
	}
	if r.State == Completed && !done {
		w.violates(trueRecord)
	}
	for i, a := range w.a {
		if a.at != gone && a.at != idle || w.fly[i].on {
			return
		}
	}
	if w.net[0].on || w.net[1].on {
		return
	}
	if r.State == Indeterminate && !r.Begun {
		w.violates(neverStuck) // it needs a decision though nothing can have happened
	}
	if !w.excused && r.State.open() {
		w.violates(noFalseAlarm)
	}
	// Everybody is done: a sweep, one truthful decision, and the next request gets an answer or runs.
	t := who{recovery: hold, gen: w.gen, tick: w.tick}
	for range 3 {
		r, _, _ = x.stepped(r, intent{what: sweep, lapsed: true}, t)
	}
	if r.State == Indeterminate {
		v := intent{what: sayNothing, fence: r.Fence, never: true}
		if done {
			v = intent{what: sayDone, fence: r.Fence, value: w.led[r.L]}
		}
		r, _, _ = x.stepped(r, v, t)
	}
	if _, m, why := x.stepped(r, intent{what: claim}, t); why != known && m != t1 && m != t7 && m != t9 {
		w.violates(neverStuck)
	}
}

// fresh is a version that nobody has.
func (w *world) fresh() uint8 {
	v := max(w.rec.Version, w.bak.Version)
	for _, a := range w.a {
		v = max(v, a.mine, a.seen.Version)
	}
	for _, m := range w.net {
		v = max(v, m.seen, m.to.Version)
	}
	return v + 1
}

// canonical forgets what nothing depends on, and numbers versions in the order in which they are met.
func (w *world) canonical() {
	var number [256]uint8
	var n uint8
	rename := func(v *uint8) {
		if *v == 0 {
			return
		}
		if number[*v] == 0 {
			n++
			number[*v] = n
		}
		*v = number[*v]
	}
	if m := &w.net; m[1].on && (!m[0].on || m[0].by > m[1].by) {
		m[0], m[1] = m[1], m[0]
	}
	rename(&w.rec.Version)
	rename(&w.bak.Version)
	for i := range w.a {
		a := &w.a[i]
		if a.at != calling && a.at != loading {
			a.mine, a.move, a.want = 0, 0, intent{}
		}
		rename(&a.seen.Version)
		rename(&a.mine)
	}
	for i := range w.net {
		rename(&w.net[i].seen)
		rename(&w.net[i].to.Version)
	}
}

func (r rec) String() string {
	if r.State == 0 {
		return "absent"
	}
	s := fmt.Sprintf("%v fence %d generation %d", r.State, r.Fence, r.Gen)
	if r.State == Pending && r.Begun {
		s += " begun"
	}
	if r.Value != 0 {
		s += fmt.Sprintf(" value %d", r.Value)
	}
	if r.Expired {
		s += " expired"
	}
	return s
}
