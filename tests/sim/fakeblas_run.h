// SPDX-License-Identifier: MIT
//
// What the parts of the stand-in for cublasLt share: what lies in the library's opaque structures,
// and a product that is to be computed.
#ifndef RIDGE_SIM_FAKEBLAS_RUN_H
#define RIDGE_SIM_FAKEBLAS_RUN_H

#include "fakeblas.h"
#include "fakecuda.h"

// ridge finds the real library's functions by name through the plugin, and so it finds these.
#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

namespace fake
{

// What lies in the library's opaque structures.
struct Desc {
  uint32_t magic;
  int32_t compute, scale, transa, transb, epilogue, bias_type;
  uint64_t bias;
  uint64_t a_scale, b_scale; // of 8-bit floats: where f32s are, or 0
  int32_t a_mode, b_mode;    // how many: one, or one for each row of a and column of b
};
struct Layout {
  uint32_t magic;
  int32_t type;
  uint64_t rows, cols;
  int64_t ld, step;
  int32_t batch;
};
struct Preference {
  uint32_t magic, schemes;
  uint64_t workspace;
  uint32_t aligned[4]; // a, b, c, d
};
struct Algo {
  uint32_t magic, id, scheme, aligned;
  uint64_t workspace;
};

struct Problem {
  Desc d;
  Layout a, b, c, out;
  uint64_t m, n, k;
};

struct Run {
  Problem p;
  Algo algo;
  const char *a, *b;
  char *out;
  double alpha;
  void *workspace; // its bytes are algo.workspace
};

size_t size_of(int32_t type);
bool is_float8(int32_t type);

// An element as a number, and a number as an element.
double load(const void *data, int32_t type, size_t i);
void store(void *data, int32_t type, size_t i, double v);

// The work of the stream: reads the factors, writes the result, spoils the workspace.
void compute(const Run &r);

} // namespace fake

#endif
