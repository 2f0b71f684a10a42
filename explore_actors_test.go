package idem

// The actors do what Do, a sweeper and an operator do around step: propose, write, look at who holds the key, go on.

// mayStart: deliveries that are alike start in order.
func (x *explorer) mayStart(w *world, i int) bool {
	switch {
	case i == other:
		return w.rec.State.open()
	case i == 0 || x.tx(i) != x.tx(i-1) || x.begins[i] != x.begins[i-1]:
		return true
	}
	return w.a[i-1].at != idle
}

// end: nothing of it is left. The sweeper and the operator come back.
func (x *explorer) end(w world, i int) {
	w.a[i] = actor{at: gone}
	if i == other && w.sweeps+w.operators > 0 {
		w.a[i].at = idle
	}
	x.emit(w)
}

func (x *explorer) who(w *world, i int) who {
	t := who{recovery: x.recovery, durable: x.durable(i), tx: x.tx(i), gen: w.a[i].gen, tick: w.tick}
	if i == other && w.a[i].shown {
		t.recovery = hold
	}
	return t
}

func (x *explorer) act(w world, i int) {
	a := &w.a[i]
	switch a.at {
	case idle:
		x.start(w, i)
	case calling:
		x.send(w, i)
	case loading:
		if a.gen != w.gen {
			x.end(w, i)
			return
		}
		x.log("loads; ")
		x.answered(w, i, w.rec)
	case asking:
		x.ask(w, i)
	case running:
		x.run(w, i)
	}
}

func (x *explorer) start(w world, i int) {
	a := &w.a[i]
	a.gen = w.gen
	if i != other {
		x.propose(w, i, intent{what: claim})
		return
	}
	if w.sweeps > 0 {
		x.branch(w, func(w *world) {
			w.sweeps--
			x.log("sweeps; ")
			w.a[i].seen = w.rec
			x.propose(*w, i, intent{what: sweep})
		})
	}
	if w.operators > 0 {
		w.operators--
		a.shown, a.seen = true, w.rec
		x.log("operator looks; ")
		if w.rec.State == Indeterminate && w.rec.Gen == w.gen {
			x.ask(w, i)
			return
		}
		x.propose(w, i, intent{what: sweep})
	}
}

// propose asks step what to write; nothing is sent yet. A lease may be judged over at any time.
func (x *explorer) propose(w world, i int, want intent) {
	if (want.what == claim || want.what == sweep) && w.a[i].seen.State == Pending && !want.lapsed {
		x.branch(w, func(w *world) {
			x.log("judges it lapsed; ")
			w.excused = true
			lapsed := want
			lapsed.lapsed = true
			x.proposeAs(*w, i, lapsed)
		})
	}
	x.proposeAs(w, i, want)
}

func (x *explorer) proposeAs(w world, i int, want intent) {
	a := &w.a[i]
	_, m, why := x.stepped(a.seen, want, x.who(&w, i))
	if why != fine {
		x.refused(w, i, want, why)
		return
	}
	x.log("wants %s", moveNames[m])
	a.at, a.want, a.move, a.mine, a.sends = calling, want, m, w.fresh(), 0
	x.emit(w)
}

// send is one try of one request to the store.
func (x *explorer) send(w world, i int) {
	a := &w.a[i]
	if a.gen != w.gen {
		x.log("the table has another generation")
		w.excused = true
		x.end(w, i)
		return
	}
	to, m, _ := x.stepped(a.seen, a.want, x.who(&w, i))
	to.Version = a.mine
	if a.seen.Expired && a.seen.State.terminal() && (m == t7 || m == t9 || m == tx) {
		to.L = min(a.seen.L+1, lives-1)
	}
	if m == tx {
		to.Value = uint8(i + 1)
	}
	msg := message{on: true, create: a.seen.State == 0, tx: m == tx, by: uint8(i), seen: a.seen.Version, to: to}
	x.branch(w, func(w *world) {
		x.apply(w, msg)
		x.answered(*w, i, w.rec)
	})
	if w.faults == 0 {
		return
	}
	w.faults--
	unanswered := func(w world, note string) {
		x.branch(w, func(w *world) {
			x.log("%s, sent again", note)
			w.a[i].sends++
			x.emit(*w)
		})
		x.branch(w, func(w *world) {
			x.log("%s, ambiguous", note)
			w.excused = true
			w.a[i].sends = 0
			x.ambiguous(*w, i)
		})
	}
	x.branch(w, func(w *world) {
		x.apply(w, msg)
		unanswered(*w, " answer lost")
	})
	x.branch(w, func(w *world) {
		for k := range w.net {
			if !w.net[k].on {
				w.net[k] = msg
				unanswered(*w, " delayed")
				return
			}
		}
	})
}

// ambiguous: nobody knows whether the write was applied.
func (x *explorer) ambiguous(w world, i int) {
	a := &w.a[i]
	switch {
	case a.move == t1 || a.move == t7 || a.move == tx || a.move == t2:
		a.at = loading
		x.emit(w)
	case a.want.what == begin:
		x.propose(w, i, intent{what: release, fence: a.fence})
	case a.want.what == note:
		x.goOn(w, i, a.seen)
	case a.goesOn:
		a.goesOn = false
		x.goOn(w, i, a.seen)
	default:
		x.end(w, i)
	}
}

// answered: h holds the key. It is the actor's own iff it carries its version.
func (x *explorer) answered(w world, i int, h rec) {
	a := &w.a[i]
	load := a.at == loading
	a.sends = 0
	if h.State != 0 && h.Version == a.mine {
		x.log(" ok; ")
		x.succeeded(w, i, h)
		return
	}
	x.log(" finds %s; ", h)
	x.watch(&w, i, h)
	asSeen := h.State == 0 && a.seen.State == 0 || h.State != 0 && h.Version == a.seen.Version
	a.seen = h
	switch {
	case load && asSeen && a.move != t2: // it may yet be applied
		x.end(w, i)
	case a.shown: // an operator decides about what was shown
		x.end(w, i)
	case a.want.what == claim || a.want.what == sweep:
		x.propose(w, i, intent{what: a.want.what})
	default:
		x.propose(w, i, a.want)
	}
}

// watch notes what was reached.
func (x *explorer) watch(w *world, i int, h rec) {
	a := &w.a[i]
	to, _, _ := x.stepped(a.seen, a.want, x.who(w, i))
	verdict := a.want.what >= sayDone && a.want.what <= sayNothing
	switch {
	case (a.move == t1 || a.move == t7) && h.State == Indeterminate && h.Fence == to.Fence && w.maxBy == uint8(i) && w.maxFence == to.Fence:
		x.reach[claimOverwritten]++
	case a.want.what == begin && h.Begun && h.Fence == a.fence:
		x.reach[beginOverwritten]++
	case a.wrote && h.State.terminal():
		x.reach[outcomeRewritten]++
	case verdict && h.State == Indeterminate && h.Fence == a.want.fence:
		x.reach[verdictAgain]++
	case verdict && h.State == Indeterminate:
		x.reach[verdictStale]++
	}
}

func (x *explorer) succeeded(w world, i int, h rec) {
	a := &w.a[i]
	a.seen = h
	switch a.want.what {
	case claim, sweep, sayDone, sayFailed, sayNothing:
		switch {
		case a.move == t1 || a.move == t7:
			a.fence, a.life, a.l = h.Fence, h.Life, h.L
			if x.durable(i) {
				x.propose(w, i, intent{what: begin, fence: a.fence})
				return
			}
			a.begun = true
			x.goOn(w, i, h)
		case a.move == t4:
			a.at = asking
			for j := range w.a {
				if j != i && w.a[j].at == asking {
					x.reach[twoAskers]++
				}
			}
			x.emit(w)
		case h.State.terminal() && i != other:
			x.answer(w, i, h)
		case i == other && (h.State != Indeterminate || a.shown): // an operator asks when it comes back
			x.end(w, i)
		case i == other:
			x.propose(w, i, intent{what: sweep})
		default:
			x.propose(w, i, intent{what: claim})
		}
	case begin:
		a.begun = true
		x.goOn(w, i, h)
	case note:
		a.noted = true
		x.goOn(w, i, h)
	case complete, fail:
		x.answer(w, i, h)
	default:
		if a.goesOn {
			a.goesOn = false
			x.goOn(w, i, h)
			return
		}
		x.end(w, i)
	}
}

// goOn: the function is the next to act.
func (x *explorer) goOn(w world, i int, h rec) {
	a := &w.a[i]
	a.at, a.want, a.move, a.mine, a.seen = running, intent{}, 0, 0, h
	x.log("runs")
	x.emit(w)
}

// refused: step has nothing to write.
func (x *explorer) refused(w world, i int, want intent, why refusal) {
	a := &w.a[i]
	welcome := w.maxFence == a.fence && a.seen.State.open() && a.seen.Gen == w.gen && a.seen.Life == a.life
	switch want.what {
	case claim:
		if why == known {
			x.answer(w, i, a.seen)
			return
		}
		x.log("refused")
		x.end(w, i)
	case begin:
		if why == already {
			a.begun = true
			x.goOn(w, i, a.seen)
			return
		}
		w.excused = true
		x.propose(w, i, intent{what: release, fence: a.fence})
	case note:
		a.noted = true
		x.goOn(w, i, a.seen)
	case complete, fail:
		if welcome {
			w.violates(truthWelcome)
		}
		if why == known {
			if a.seen.L != a.l {
				w.violates(oneOutcome)
			}
			x.answer(w, i, a.seen)
			return
		}
		if a.wrote {
			w.violates(noFalseAlarm)
		}
		w.excused = true
		x.propose(w, i, intent{what: leave, fence: a.fence, life: a.life, value: want.value})
	case release:
		if welcome {
			w.violates(truthWelcome)
		}
		x.end(w, i)
	case doubt:
		if a.goesOn {
			a.goesOn = false
			x.goOn(w, i, a.seen)
			return
		}
		x.end(w, i)
	case sayDone, sayFailed, sayNothing:
		switch {
		case i == other:
			x.end(w, i)
		case why == known:
			x.answer(w, i, a.seen)
		case why == lost:
			x.propose(w, i, intent{what: claim})
		default:
			x.end(w, i)
		}
	default:
		x.end(w, i)
	}
}

// ask: the provider tells the truth of this moment. Its answer is written any time later.
func (x *explorer) ask(w world, i int) {
	a := &w.a[i]
	f, l := a.seen.Fence, a.seen.L
	if v := w.led[l]; v != 0 {
		x.log("asks: it happened; ")
		x.propose(w, i, intent{what: sayDone, fence: f, value: v})
		return
	}
	x.branch(w, func(w *world) { x.log("asks: no answer"); w.excused = true; x.end(*w, i) })
	if e := a.seen.Evidence; e != 0 && e < failures && a.seen.Sealed >= a.seen.Life { // older evidence proves nothing
		x.branch(w, func(w *world) {
			x.log("believes the evidence; ")
			x.propose(*w, i, intent{what: sayDone, fence: f, value: e})
		})
	}
	x.branch(w, func(w *world) {
		x.log("asks: nothing yet; ")
		x.propose(*w, i, intent{what: sayNothing, fence: f, run: i != other})
	})
	x.branch(w, func(w *world) {
		x.log("asks: nothing, and all is settled; ")
		x.settle(w, i)
		x.propose(*w, i, intent{what: sayNothing, fence: f, settled: true, run: i != other})
	})
	for _, what := range []what{sayNothing, sayFailed} {
		x.branch(w, func(w *world) {
			x.log("asks: never; ")
			w.closed[l] = max(w.closed[l], f)
			v := intent{what: what, fence: f, never: true, run: i != other && what == sayNothing}
			if what == sayFailed {
				v.value = uint8(verdicts + i)
			}
			x.propose(*w, i, v)
		})
	}
}

// settle is what real time is trusted for: no run that may have begun reaches the provider any more, of those whose lease the
// record knows, and of the lost window if it is quarantined.
func (x *explorer) settle(w *world, by int) {
	r := w.a[by].seen
	upto := max(r.O, r.Fence)
	for j := range w.a {
		a := &w.a[j]
		unbegun := x.durable(j) && a.gen == w.gen && !a.begun && !(a.at == calling && a.want.what == begin && a.sends > 0)
		if a.fence != 0 && a.fence <= upto && a.l == r.L && !unbegun {
			a.spent = true
		}
		if f := w.fly[j]; f.on && f.fence <= upto && f.l == r.L {
			w.fly[j] = flight{}
		}
	}
}

// run is one step of the function.
func (x *explorer) run(w world, i int) {
	a := &w.a[i]
	me := uint8(i + 1)
	propose := func(w *world, note string, v intent) {
		x.log("%s", note)
		v.fence = w.a[i].fence
		x.propose(*w, i, v)
	}
	if !a.spent {
		x.branch(w, func(w *world) {
			x.log("has its effect; ")
			if !x.effect(w, i, a.fence, a.l) {
				propose(w, "refused by the provider; ", intent{what: release})
				return
			}
			x.branch(*w, func(w *world) { propose(w, "", intent{what: complete, life: a.life, value: me}) })
			w.excused = true
			propose(w, "but does not know; ", intent{what: doubt})
		})
		x.branch(w, func(w *world) {
			w.excused = true
			w.fly[i] = flight{true, a.fence, a.l}
			propose(w, "sends its request and times out; ", intent{what: doubt})
		})
	}
	x.branch(w, func(w *world) { propose(w, "NotApplied; ", intent{what: release}) })
	x.branch(w, func(w *world) { propose(w, "Final; ", intent{what: fail, life: a.life, value: failures + me}) })
	if !a.late {
		x.branch(w, func(w *world) {
			w.excused = true
			w.a[i].late, w.a[i].goesOn = true, true
			propose(w, "deadline reported, goes on; ", intent{what: doubt})
		})
	}
	if x.notes && !a.noted {
		x.branch(w, func(w *world) {
			w.a[i].noted = true
			propose(w, "saves a note; ", intent{what: note, value: me})
		})
	}
}

// answer: the caller gets what is recorded.
func (x *explorer) answer(w world, i int, r rec) {
	x.log("answers %s", r)
	if r.State == Completed && w.done[r.L]&(1<<r.Value) == 0 {
		w.violates(durableFirst)
	}
	if x.restores == 0 || r.State == Completed && x.recovery != rerun {
		was := &w.ans[r.L]
		if was.State == 0 {
			*was = rec{State: r.State, Value: r.Value}
		} else if was.State != r.State || was.Value != r.Value {
			w.violates(oneOutcome)
		}
	}
	x.end(w, i)
}

var moveNames = [...]string{"-", "T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "TE", "Tx"}
