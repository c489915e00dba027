/* SPDX-License-Identifier: MIT */
/*
** Which of cublasLt's algorithms is taken for which product: in memory, and what was found by
** timing also in a file of the user's, so that it is found once.
*/
#ifndef RIDGE_GPU_TUNED_CUH
#define RIDGE_GPU_TUNED_CUH

#include <cublasLt.h>
#include <stdint.h>

/* All that the choice depends on; compared and written as numbers. */
enum {
  RG_TUNED_LIBRARY, /* its version */
  RG_TUNED_CARD,    /* hash of the GPU's name, its capability and its multiprocessors */
  RG_TUNED_M,
  RG_TUNED_N,
  RG_TUNED_K,
  RG_TUNED_COUNT,
  RG_TUNED_LD_A,
  RG_TUNED_LD_B,
  RG_TUNED_LD_C,
  RG_TUNED_STEP_A,
  RG_TUNED_STEP_B,
  RG_TUNED_STEP_C,
  RG_TUNED_TYPES,     /* of factors and result, how it is computed, who is transposed */
  RG_TUNED_END,       /* bias, activation, scales */
  RG_TUNED_ALIGNED,   /* of the pointers */
  RG_TUNED_WORKSPACE, /* bytes */
  RG_TUNED_SCHEMES,   /* ways of adding up split sums that are allowed */
  RG_TUNED_MODES,     /* of rg_device_modes */
  RG_TUNED_FIELDS
};

typedef struct rg_tuned_key {
  int64_t field[RG_TUNED_FIELDS];
} rg_tuned_key;

enum {
  RG_TUNED_ABSENT, /* nothing is known */
  RG_TUNED_NONE,   /* no algorithm takes this product */
  RG_TUNED_FIRST,  /* the library's first choice that ran; not timed */
  RG_TUNED_BEST,   /* the fastest of those that were timed here */
  RG_TUNED_LOADED, /* the fastest once, says the file: to be checked before it is used */
  RG_TUNED_CHECKED /* that, and the library has agreed */
};

/* What is known of a product: one of the states; the algorithm for the last four. */
int32_t rg_tuned_find(const rg_tuned_key *key, cublasLtMatmulAlgo_t *algo);

/* Remember.  What is RG_TUNED_BEST comes into the file, at the latest when the process ends. */
void rg_tuned_keep(const rg_tuned_key *key, int32_t state, const cublasLtMatmulAlgo_t *algo);

#endif
