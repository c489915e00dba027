/* SPDX-License-Identifier: MIT */
/*
** What tensor.c tells the scope.
*/
#ifndef RIDGE_TENSOR_SCOPE_H
#define RIDGE_TENSOR_SCOPE_H

#include "tensor/tensor.h"

/* List a new tensor in the current scope, which takes a reference. */
rg_status rg_scope_add(rg_tensor *x) RG_CHECK;

/* Where x stands in the list of its scope; 0: in none. */
static inline int32_t rg_scope_place(const rg_tensor *x)
{
  return __atomic_load_n(&x->_place, __ATOMIC_RELAXED);
}

/* Has the caller, beside the list of a scope, the only reference to x, and x alone its memory? */
static inline bool rg_tensor_is_sole(const rg_tensor *x)
{
  int64_t listed = rg_scope_place(x) > 0 ? 1 : 0;

  return __atomic_load_n(&x->_refs, __ATOMIC_ACQUIRE) == 1 + listed &&
         atomic_load(&x->_storage->strong) == 1;
}

/*
** Take x, which only a list still knows, out of it; true if it was this thread's list, whose
** reference the caller then gives back.  So memory that is let go inside a scope is free at once.
**
** x        not looked into unless this thread's list has it: another thread may end its scope now
** place    rg_scope_place(x), read while x was held
*/
bool rg_scope_forget(rg_tensor *x, int32_t place);

#endif
