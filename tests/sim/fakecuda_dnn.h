// SPDX-License-Identifier: MIT
//
// What the parts of the stand-in for cuDNN share: descriptors, tensors, and one run of a graph.
#ifndef RIDGE_SIM_FAKECUDA_DNN_H
#define RIDGE_SIM_FAKECUDA_DNN_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn_graph.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace fake
{

// -- Descriptors ---------------------------------------------------------------------------

struct Desc {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<unsigned char>> attributes;
  bool final = false;
};

// An attribute as an array of T; empty where it was not set.
template <class T> std::vector<T> all(const Desc *d, cudnnBackendAttributeName_t name)
{
  auto found = d->attributes.find(name);
  if (found == d->attributes.end()) return {};
  std::vector<T> v(found->second.size() / sizeof(T));
  memcpy(v.data(), found->second.data(), v.size() * sizeof(T));
  return v;
}

template <class T> T one(const Desc *d, cudnnBackendAttributeName_t name, T otherwise)
{
  std::vector<T> v = all<T>(d, name);
  return v.empty() ? otherwise : v[0];
}

inline const Desc *part(const Desc *d, cudnnBackendAttributeName_t name)
{
  return one<const Desc *>(d, name, nullptr);
}

// -- Tensors -------------------------------------------------------------------------------

struct Tensor {
  int64_t n[4], step[4], uid;
  int32_t type;
  bool is_virtual, by_value;

  explicit Tensor(const Desc *d)
  {
    std::vector<int64_t> dims = all<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    std::vector<int64_t> steps = all<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES);
    for (int i = 0; i < 4; i++) {
      n[i] = dims[static_cast<size_t>(i)];
      step[i] = steps[static_cast<size_t>(i)];
    }
    uid = one<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
    type = one<int32_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
    is_virtual = one<char>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
    by_value = one<char>(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  }
  int64_t count(void) const
  {
    return n[0] * n[1] * n[2] * n[3];
  }
  // Where the i-th element in row-major order lies, in elements.
  int64_t place(int64_t i) const
  {
    int64_t at = 0;
    for (int d = 3; d >= 0; d--) {
      at += i % n[d] * step[d];
      i /= n[d];
    }
    return at;
  }
};

inline double load(const void *data, int64_t at, int32_t type)
{
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float *>(data)[at];
  if (type == CUDNN_DATA_HALF) return __half2float(static_cast<const __half *>(data)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[at]);
}

inline void store(void *data, int64_t at, int32_t type, double x)
{
  switch (type) {
  case CUDNN_DATA_FLOAT:
    static_cast<float *>(data)[at] = static_cast<float>(x);
    break;
  case CUDNN_DATA_HALF:
    static_cast<__half *>(data)[at] = __float2half_rn(static_cast<float>(x));
    break;
  default:
    static_cast<__nv_bfloat16 *>(data)[at] = __float2bfloat16_rn(static_cast<float>(x));
  }
}

// What an element of that type holds of x.
inline double rounded(int32_t type, double x)
{
  unsigned char room[8];
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16) return x;
  store(room, 0, type, x);
  return load(room, 0, type);
}

// -- Running -------------------------------------------------------------------------------

// Values in row-major order.
struct Values {
  Tensor t;
  std::vector<double> v;

  double at(int64_t a, int64_t b, int64_t c, int64_t d) const
  {
    return v[static_cast<size_t>(((a * t.n[1] + b) * t.n[2] + c) * t.n[3] + d)];
  }
  // By an index of a larger shape, in which sizes of 1 are repeated.
  double spread(const int64_t i[4]) const
  {
    int64_t k[4];
    for (int d = 0; d < 4; d++)
      k[d] = t.n[d] == 1 ? 0 : i[d];
    return at(k[0], k[1], k[2], k[3]);
  }
};

enum { WORKSPACE = 1000 }; // bytes, which every run writes to

struct Run {
  std::vector<const Desc *> ops;
  std::map<int64_t, void *> memory;
  std::map<int64_t, double> numbers;
  std::map<int64_t, std::vector<double>> between;
  void *workspace;

  Values read(const Desc *d)
  {
    Values x{ Tensor(d), {} };
    if (x.t.is_virtual) {
      x.v = between.at(x.t.uid);
      return x;
    }
    for (int64_t i = 0; i < x.t.count(); i++) {
      x.v.push_back(x.t.by_value ? numbers.at(x.t.uid)
                                 : load(memory.at(x.t.uid), x.t.place(i), x.t.type));
    }
    return x;
  }

  // f(index) for each element.
  template <class F> void write(const Desc *d, F f)
  {
    Tensor y(d);
    std::vector<double> v;
    for (int64_t i = 0; i < y.count(); i++) {
      int64_t k[4], rest = i;
      for (int a = 3; a >= 0; a--) {
        k[a] = rest % y.n[a];
        rest /= y.n[a];
      }
      v.push_back(rounded(y.type, f(k)));
    }
    if (y.is_virtual) {
      between[y.uid] = v;
      return;
    }
    for (int64_t i = 0; i < y.count(); i++) {
      store(memory.at(y.uid), y.place(i), y.type, v[static_cast<size_t>(i)]);
    }
  }

  void pointwise(const Desc *op);
  void matmul(const Desc *op);
  void reduce(const Desc *op);
  void reshape(const Desc *op);
  void convolve(const Desc *op, int kind);
  bool is_there(void) const;
  void all_of_it(void);
};

} // namespace fake

#endif
