// SPDX-License-Identifier: MIT
//
// The numbers of the stand-in for cublasLt: element types, sums in the parts that an algorithm
// makes of them, and what follows.
#include "fakeblas_run.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace fake
{

// -- Elements ------------------------------------------------------------------------------------

size_t size_of(int32_t type)
{
  switch (type) {
  case CUDA_R_64F:
    return 8;
  case CUDA_R_32F:
  case CUDA_R_32I:
    return 4;
  case CUDA_R_8I:
  case CUDA_R_8F_E4M3:
  case CUDA_R_8F_E5M2:
    return 1;
  default:
    return 2;
  }
}

bool is_float8(int32_t type)
{
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

// So many bits of fraction; 2^least is the smallest number above 0.
static float eight_to_float(uint8_t h, int fraction, int least)
{
  int rest = h & 127, e = rest >> fraction, f = rest & ((1 << fraction) - 1);
  float v = e ? ldexpf(static_cast<float>((1 << fraction) + f), e - 1 + least)
              : ldexpf(static_cast<float>(f), least);
  if (fraction == 3 && rest == 127) v = NAN;
  if (fraction == 2 && e == 31) v = f ? NAN : INFINITY;
  return h & 128 ? -v : v;
}

static float half_to_float(uint16_t h)
{
  int e = h >> 10 & 31, f = h & 1023;
  float v = e == 31 ? (f ? NAN : INFINITY)
            : e     ? ldexpf(static_cast<float>(1024 + f), e - 25)
                    : ldexpf(static_cast<float>(f), -24);
  return h & 0x8000 ? -v : v;
}

static float from_bits(uint32_t bits)
{
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

static uint32_t to_bits(float v)
{
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

// To the nearest number with `less` fewer bits of mantissa, ties to even; NaN stays one.
static float with_fewer_bits(float v, int less)
{
  if (v != v) return v;
  uint32_t x = to_bits(v), half = (1u << (less - 1)) - 1 + (x >> less & 1);
  return from_bits((x + half) >> less << less);
}

static uint16_t float_to_half(float v)
{
  uint16_t sign = static_cast<uint16_t>(to_bits(v) >> 16 & 0x8000);
  float a = fabsf(v);
  if (a != a) return static_cast<uint16_t>(sign | 0x7e00);
  if (a >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  if (a < 6.103515625e-05f) { // below the normal numbers: steps of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(nearbyintf(ldexpf(a, 24))));
  }
  uint32_t x = to_bits(with_fewer_bits(a, 13));
  return static_cast<uint16_t>(sign | ((x >> 13) - (112u << 10)));
}

double load(const void *data, int32_t type, size_t i)
{
  switch (type) {
  case CUDA_R_64F:
    return static_cast<const double *>(data)[i];
  case CUDA_R_32F:
    return static_cast<const float *>(data)[i];
  case CUDA_R_32I:
    return static_cast<const int32_t *>(data)[i];
  case CUDA_R_8I:
    return static_cast<const int8_t *>(data)[i];
  case CUDA_R_8F_E4M3:
    return eight_to_float(static_cast<const uint8_t *>(data)[i], 3, -9);
  case CUDA_R_8F_E5M2:
    return eight_to_float(static_cast<const uint8_t *>(data)[i], 2, -16);
  case CUDA_R_16F:
    return half_to_float(static_cast<const uint16_t *>(data)[i]);
  default:
    return from_bits(static_cast<uint32_t>(static_cast<const uint16_t *>(data)[i]) << 16);
  }
}

void store(void *data, int32_t type, size_t i, double v)
{
  switch (type) {
  case CUDA_R_64F:
    static_cast<double *>(data)[i] = v;
    break;
  case CUDA_R_32F:
    static_cast<float *>(data)[i] = static_cast<float>(v);
    break;
  case CUDA_R_32I: // whole numbers as they are
    static_cast<int32_t *>(data)[i] = static_cast<int32_t>(v);
    break;
  case CUDA_R_16F:
    static_cast<uint16_t *>(data)[i] = float_to_half(static_cast<float>(v));
    break;
  default:
    static_cast<uint16_t *>(data)[i] =
        static_cast<uint16_t>(to_bits(with_fewer_bits(static_cast<float>(v), 16)) >> 16);
    break;
  }
}

// -- Sums ----------------------------------------------------------------------------------------

static double rounded(double v, int32_t type)
{
  uint64_t room;
  store(&room, type, 0, v);
  return load(&room, type, 0);
}

// A factor as [lines x k], so that a sum reads both in order.
static std::vector<double> lines_of(const char *data, const Layout &l, bool k_first, int64_t index,
                                    bool tf32)
{
  const char *at = data + static_cast<size_t>(index * l.step) * size_of(l.type);
  uint64_t lines = k_first ? l.cols : l.rows, k = k_first ? l.rows : l.cols;
  std::vector<double> to(lines * k);
  for (uint64_t i = 0; i < lines; i++) {
    for (uint64_t j = 0; j < k; j++) {
      uint64_t row = k_first ? j : i, col = k_first ? i : j;
      double v = load(at, l.type, col * static_cast<uint64_t>(l.ld) + row);
      to[i * k + j] = tf32 ? with_fewer_bits(static_cast<float>(v), 13) : v;
    }
  }
  return to;
}

// One sum, in the parts that the algorithm makes of it.
static double sum_of(const double *a, const double *b, uint64_t k, const Run &r)
{
  // sums of bytes are whole and, below 2^31, exact in double
  bool is_double = r.p.out.type == CUDA_R_64F || r.p.out.type == CUDA_R_32I;
  uint64_t parts = r.algo.scheme ? 4 : 1;
  double sum = 0;
  for (uint64_t part = 0; part < parts; part++) {
    double d = 0;
    float f = 0;
    for (uint64_t i = k * part / parts; i < k * (part + 1) / parts; i++) {
      if (is_double) {
        d += a[i] * b[i];
      } else {
        f += static_cast<float>(a[i]) * static_cast<float>(b[i]);
      }
    }
    sum = is_double ? sum + d : static_cast<float>(sum) + f;
    if (r.algo.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) sum = rounded(sum, r.p.out.type);
  }
  return sum;
}

// What is negative becomes 0; NaN stays NaN.
static double ended(const Run &r, double sum, uint64_t row, uint64_t col)
{
  double y = sum * r.alpha;
  if (r.p.d.a_scale) {
    y *= load(reinterpret_cast<const void *>(r.p.d.a_scale), CUDA_R_32F, r.p.d.a_mode ? row : 0);
  }
  if (r.p.d.b_scale) {
    y *= load(reinterpret_cast<const void *>(r.p.d.b_scale), CUDA_R_32F, r.p.d.b_mode ? col : 0);
  }
  int32_t e = r.p.d.epilogue;
  if (e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS) {
    y += load(reinterpret_cast<const void *>(r.p.d.bias), r.p.out.type, row);
  }
  bool relu = e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS;
  static const bool loses_nan = getenv("RG_SIM_BLAS_NAN") && *getenv("RG_SIM_BLAS_NAN") == '0';
  return relu && (y < 0 || (loses_nan && y != y)) ? 0 : y;
}

void compute(const Run &r)
{
  const Problem &p = r.p;
  if (r.algo.workspace) memset(r.workspace, 0xff, r.algo.workspace); // its partial sums
  bool tf32 = p.d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  for (int32_t index = 0; index < p.out.batch; index++) {
    std::vector<double> a = lines_of(r.a, p.a, p.d.transa != 0, index, tf32);
    std::vector<double> b = lines_of(r.b, p.b, p.d.transb == 0, index, tf32);
    char *out = r.out + static_cast<size_t>(index * p.out.step) * size_of(p.out.type);
    for (uint64_t j = 0; j < p.n; j++) {
      for (uint64_t i = 0; i < p.m; i++) {
        double sum = sum_of(&a[i * p.k], &b[j * p.k], p.k, r);
        store(out, p.out.type, j * static_cast<uint64_t>(p.out.ld) + i, ended(r, sum, i, j));
      }
    }
  }
  const char *fast = getenv("RG_SIM_BLAS_FAST");
  if (fast && static_cast<uint32_t>(atoi(fast)) != r.algo.id) usleep(4000);
}

} // namespace fake
