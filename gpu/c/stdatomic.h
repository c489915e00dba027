/* SPDX-License-Identifier: MIT */
/*
** The core's headers are C11; kernels are C++.  They look at shapes and pointers only, so that an
** atomic number is a number to them, and what changes one is not called.
*/
#ifndef RIDGE_GPU_C_STDATOMIC_H
#define RIDGE_GPU_C_STDATOMIC_H

#define _Atomic
#define _Thread_local thread_local

#define atomic_load_explicit(p, order)         (*(p))
#define atomic_store_explicit(p, v, order)     ((void)(*(p) = (v)))
#define atomic_fetch_add_explicit(p, v, order) ((void)(*(p) += (v)))
#define atomic_exchange_explicit(p, v, order)  (*(p) = (v))

#endif
