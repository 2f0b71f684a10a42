package observe

import (
	"context"

	"github.com/idem-go/idem"
)

// All is an observer that calls each in turn. A nil one is left out.
func All(observers ...func(context.Context, idem.Event)) func(context.Context, idem.Event) {
	var list []func(context.Context, idem.Event)
	for _, o := range observers {
		if o != nil {
			list = append(list, o)
		}
	}
	return func(ctx context.Context, e idem.Event) {
		for _, o := range list {
			o(ctx, e)
		}
	}
}
