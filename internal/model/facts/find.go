package facts

import "iter"

// Each yields a pointer to every element of a list.
func Each[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// Find returns the first element of a list that is wanted; nil if there is none.
func Find[T any](list []T, wanted func(*T) bool) *T {
	for e := range Each(list) {
		if wanted(e) {
			return e
		}
	}
	return nil
}
