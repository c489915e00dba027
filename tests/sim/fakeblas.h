// SPDX-License-Identifier: MIT
//
// What tests ask the stand-in for cublasLt.
//
//   RG_SIM_BLAS_FAST=id     the algorithm of this number is fast, all others are slow
//   RG_SIM_BLAS_VERSION=n   the version that it says it is, 130100 for 13.1.0
#ifndef RIDGE_SIM_FAKEBLAS_H
#define RIDGE_SIM_FAKEBLAS_H

#include <stddef.h>

// Its algorithms, in the order in which the heuristic names them.
enum rgsim_blas_algo {
  RGSIM_BLAS_BROKEN,  // does not run where the inner size is a multiple of 3
  RGSIM_BLAS_INPLACE, // split sums, added in the output and its type
  RGSIM_BLAS_SPLIT,   // split sums, added in the workspace in the type of the sums
  RGSIM_BLAS_WIDE,    // wants addresses and leading dimensions that are multiples of 16 bytes
  RGSIM_BLAS_PLAIN,   // takes everything
  RGSIM_BLAS_ALGOS
};

// What is counted since the process began.
enum rgsim_blas_count {
  RGSIM_BLAS_CALLS,      // products that were begun
  RGSIM_BLAS_RUNS,       // products that were computed: later, and again in each launch of a graph
  RGSIM_BLAS_HEURISTICS, // questions to the heuristic
  RGSIM_BLAS_CHECKS,     // algorithms that were checked
  RGSIM_BLAS_FAILURES,   // products that did not begin because the algorithm does not run
  RGSIM_BLAS_MISUSES,    // what a correct program never does
  RGSIM_BLAS_COUNTS
};

// The last product that was begun.
struct rgsim_blas_product {
  int algo, epilogue, compute, transa, transb, batch, type_a, type_d, type_bias;
  long long m, n, k;  // as cublasLt counts them: m is the rows of a matrix by columns
  int type_b, scales; // how many numbers scale 8-bit floats
};

#ifndef RGSIM_API
#define RGSIM_API __attribute__((visibility("default")))
#endif
extern "C" {
RGSIM_API size_t rgsim_blas_counted(int what);
RGSIM_API void rgsim_blas_last(struct rgsim_blas_product *out);
}

#endif
