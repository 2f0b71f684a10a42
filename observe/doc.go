// Package observe has implementations of idem.Options.Observe: [Log] for log/slog and [EMF] for CloudWatch metrics. [All] calls
// several.
//
//	emf, err := observe.EMF(os.Stdout, nil)
//	…
//	op, err := idem.New[Charge](store, sealer, "charge", &idem.Options{Observe: observe.All(observe.Log(slog.Default()), emf)})
//
// None of them tells more than the event does: an operation, the digest that names a record, and numbers; never a key, a tenant, a
// payload or a result. They work on the caller's goroutine, start none, and may be called concurrently.
package observe
