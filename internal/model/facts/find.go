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

// Map returns what of gives for each element of a list; nil for an empty one.
func Map[T, R any](list []T, of func(T) R) []R {
	var results []R
	for _, e := range list {
		results = append(results, of(e))
	}
	return results
}

// Where returns the elements of a list that are wanted; nil if there are none.
func Where[T any](list []T, wanted func(T) bool) []T {
	var found []T
	for _, e := range list {
		if wanted(e) {
			found = append(found, e)
		}
	}
	return found
}

// Count returns how many elements of a list are wanted.
func Count[T any](list []T, wanted func(T) bool) int { return len(Where(list, wanted)) }
