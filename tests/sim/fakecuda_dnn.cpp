// SPDX-License-Identifier: MIT
//
// A stand-in for cuDNN's backend interface, in the simulator only: it computes what a graph says,
// one operation after the other, in double.  So the graphs that ridge builds, what it binds to them
// and what it copies for them are run in the tests; how cuDNN's engines compute them is not.
//
// It is as strict as the real one where that is known: descriptors are finalized before they are
// used, memory lies as aligned as it was promised, numbers by value are read at the call, the
// workspace is written to.  It has two engines, of which the first says that its bits differ from
// run to run, and takes no bias or activation after a convolution with channels first.
#if __has_include(<cudnn_graph.h>)

#include "fakecuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn_graph.h>

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

namespace
{

// -- Descriptors ---------------------------------------------------------------------------

struct Desc {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<unsigned char>> attributes;
  bool final = false;
};

struct Handle {
  cudaStream_t stream = nullptr;
};

enum { WORKSPACE = 1000, ENGINES = 2 };

thread_local char last_error[200];

__attribute__((format(printf, 1, 2))) cudnnStatus_t refuse(const char *format, ...)
{
  va_list list;
  va_start(list, format);
  vsnprintf(last_error, sizeof(last_error), format, list);
  va_end(list);
  return CUDNN_STATUS_BAD_PARAM;
}

size_t size_of(cudnnBackendAttributeType_t type)
{
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

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

const Desc *part(const Desc *d, cudnnBackendAttributeName_t name)
{
  return one<const Desc *>(d, name, nullptr);
}

template <class T> void put(Desc *d, cudnnBackendAttributeName_t name, T value)
{
  std::vector<unsigned char> &bytes = d->attributes[name];
  bytes.resize(sizeof(T));
  memcpy(bytes.data(), &value, sizeof(T));
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

double load(const void *data, int64_t at, int32_t type)
{
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float *>(data)[at];
  if (type == CUDNN_DATA_HALF) return __half2float(static_cast<const __half *>(data)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[at]);
}

void store(void *data, int64_t at, int32_t type, double x)
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
double rounded(int32_t type, double x)
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
  void all_of_it(void);
};

double of_elements(int32_t mode, double x, double b, double t)
{
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  case CUDNN_POINTWISE_RELU_FWD:
    return x < 0 ? 0 : x;
  case CUDNN_POINTWISE_GELU_FWD:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case CUDNN_POINTWISE_SWISH_FWD:
    return x / (1 + std::exp(-x));
  case CUDNN_POINTWISE_TANH_FWD:
    return std::tanh(x);
  case CUDNN_POINTWISE_SIGMOID_FWD:
    return 1 / (1 + std::exp(-x));
  default:
    return NAN;
  }
}

void Run::pointwise(const Desc *op)
{
  const Desc *p = part(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const Desc *b = part(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const Desc *t = part(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  const Desc *y = part(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  int32_t mode = one<int32_t>(p, CUDNN_ATTR_POINTWISE_MODE, -1);
  int64_t axis = one<int64_t>(p, CUDNN_ATTR_POINTWISE_AXIS, -1);

  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    write(y, [&](const int64_t *i) { return static_cast<double>(i[axis]); });
    return;
  }
  Values vx = read(part(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  Values vb = b != nullptr ? read(b) : vx;
  Values vt = t != nullptr ? read(t) : vx;
  write(y, [&](const int64_t *i) {
    return of_elements(mode, vx.spread(i), vb.spread(i), vt.spread(i));
  });
}

void Run::matmul(const Desc *op)
{
  Values a = read(part(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
  Values b = read(part(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  write(part(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC), [&](const int64_t *i) {
    double sum = 0;
    for (int64_t k = 0; k < a.t.n[3]; k++) {
      double x = a.at(i[0], i[1], i[2], k);
      sum += x == 0 ? 0 : x * b.at(i[0], i[1], k, i[3]);
    }
    return sum;
  });
}

void Run::reduce(const Desc *op)
{
  const Desc *r = part(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  bool max = one<int32_t>(r, CUDNN_ATTR_REDUCTION_OPERATOR, -1) == CUDNN_REDUCE_TENSOR_MAX;
  Values x = read(part(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
  const Desc *y = part(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  Tensor ty(y);
  write(y, [&](const int64_t *i) {
    int64_t from[4], to[4];
    double total = max ? -INFINITY : 0;
    for (int d = 0; d < 4; d++) {
      from[d] = ty.n[d] == x.t.n[d] ? i[d] : 0;
      to[d] = ty.n[d] == x.t.n[d] ? i[d] + 1 : x.t.n[d];
    }
    for (int64_t p = from[0]; p < to[0]; p++)
      for (int64_t q = from[1]; q < to[1]; q++)
        for (int64_t r2 = from[2]; r2 < to[2]; r2++)
          for (int64_t s = from[3]; s < to[3]; s++) {
            double v = x.at(p, q, r2, s);
            total = max ? (v > total ? v : total) : total + v;
          }
    return total;
  });
}

// The same memory with other sizes and steps.
void Run::reshape(const Desc *op)
{
  Values x = read(part(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
  const Desc *y = part(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  Tensor ty(y);
  std::map<int64_t, double> lies;
  for (int64_t i = 0; i < x.t.count(); i++)
    lies[x.t.place(i)] = x.v[static_cast<size_t>(i)];
  write(y, [&](const int64_t *i) {
    return lies.at(i[0] * ty.step[0] + i[1] * ty.step[1] + i[2] * ty.step[2] + i[3] * ty.step[3]);
  });
}

// kind 0: y from x and w; 1: x from y and w; 2: w from x and y.  Each product of x and w belongs to
// one element of each of the three, so all kinds walk the same way.
void Run::convolve(const Desc *op, int kind)
{
#define NAME(kind, a, b, c)                           \
  (kind == 0   ? CUDNN_ATTR_OPERATION_CONVOLUTION_##a \
   : kind == 1 ? CUDNN_ATTR_OPERATION_CONVOLUTION_##b \
               : CUDNN_ATTR_OPERATION_CONVOLUTION_##c)
  const Desc *c = part(op, NAME(kind, FORWARD_CONV_DESC, BWD_DATA_CONV_DESC, BWD_FILTER_CONV_DESC));
  const Desc *dx = part(op, NAME(kind, FORWARD_X, BWD_DATA_DX, BWD_FILTER_X));
  const Desc *dw = part(op, NAME(kind, FORWARD_W, BWD_DATA_W, BWD_FILTER_DW));
  const Desc *dy = part(op, NAME(kind, FORWARD_Y, BWD_DATA_DY, BWD_FILTER_DY));
#undef NAME
  std::vector<int64_t> stride = all<int64_t>(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  std::vector<int64_t> apart = all<int64_t>(c, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  std::vector<int64_t> pad = all<int64_t>(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  Tensor tx(dx), tw(dw), ty(dy);
  Values x{ tx, {} }, w{ tw, {} }, y{ ty, {} };
  if (kind != 1) x = read(dx);
  if (kind != 2) w = read(dw);
  if (kind != 0) y = read(dy);
  Tensor result = kind == 0 ? ty : kind == 1 ? tx : tw;
  std::vector<double> sum(static_cast<size_t>(result.count()), 0.0);
  int64_t out_group = ty.n[1] / (tx.n[1] / tw.n[1]);

  for (int64_t n = 0; n < ty.n[0]; n++)
    for (int64_t o = 0; o < ty.n[1]; o++)
      for (int64_t i = 0; i < ty.n[2]; i++)
        for (int64_t j = 0; j < ty.n[3]; j++)
          for (int64_t k = 0; k < tw.n[1]; k++)
            for (int64_t p = 0; p < tw.n[2]; p++)
              for (int64_t q = 0; q < tw.n[3]; q++) {
                int64_t r = i * stride[0] + p * apart[0] - pad[0];
                int64_t s = j * stride[1] + q * apart[1] - pad[1];
                int64_t ch = o / out_group * tw.n[1] + k;
                if (r < 0 || r >= tx.n[2] || s < 0 || s >= tx.n[3]) continue;
                int64_t at_y = ((n * ty.n[1] + o) * ty.n[2] + i) * ty.n[3] + j;
                int64_t at_x = ((n * tx.n[1] + ch) * tx.n[2] + r) * tx.n[3] + s;
                int64_t at_w = ((o * tw.n[1] + k) * tw.n[2] + p) * tw.n[3] + q;
                sum[static_cast<size_t>(kind == 0   ? at_y
                                        : kind == 1 ? at_x
                                                    : at_w)] +=
                    (kind != 1 ? x.v[static_cast<size_t>(at_x)] : 1) *
                    (kind != 2 ? w.v[static_cast<size_t>(at_w)] : 1) *
                    (kind != 0 ? y.v[static_cast<size_t>(at_y)] : 1);
              }
  Values all_sums{ result, sum };
  write(kind == 0   ? dy
        : kind == 1 ? dx
                    : dw,
        [&](const int64_t *i) { return all_sums.at(i[0], i[1], i[2], i[3]); });
}

void Run::all_of_it(void)
{
  memset(workspace, 0xff, WORKSPACE);
  for (const Desc *op : ops) {
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      pointwise(op);
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      matmul(op);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      reduce(op);
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      reshape(op);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      convolve(op, 0);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      convolve(op, 1);
      break;
    default:
      convolve(op, 2);
    }
  }
}

// -- Graphs --------------------------------------------------------------------------------

// Every tensor of a graph, once.
std::vector<const Desc *> tensors_of(const std::vector<const Desc *> &ops)
{
  std::set<const Desc *> found;
  for (const Desc *op : ops) {
    for (const auto &a : op->attributes) {
      if (a.second.size() != sizeof(Desc *)) continue;
      const Desc *d = part(op, static_cast<cudnnBackendAttributeName_t>(a.first));
      if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) found.insert(d);
    }
  }
  return std::vector<const Desc *>(found.begin(), found.end());
}

bool knows(const std::vector<const Desc *> &ops)
{
  if (ops.size() < 2 || ops[0]->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    return true;
  }
  return Tensor(part(ops[0], CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)).step[1] == 1;
}

} // namespace

// -- The interface -------------------------------------------------------------------------

size_t cudnnGetVersion(void)
{
  return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
  snprintf(message, max_size, "%s", last_error);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
  reinterpret_cast<Handle *>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *d)
{
  *d = new Desc{ type, {} };
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
  delete static_cast<Desc *>(d);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *from)
{
  Desc *d = static_cast<Desc *>(descriptor);
  if (d->final) return refuse("attribute %d comes after the descriptor was finalized", name);
  for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++) {
    const Desc *other = static_cast<const Desc *const *>(from)[i];
    if (other == nullptr || !other->final) {
      return refuse("attribute %d is a descriptor that was not finalized", name);
    }
  }
  const unsigned char *bytes = static_cast<const unsigned char *>(from);
  d->attributes[name].assign(bytes, bytes + static_cast<size_t>(n) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
  Desc *d = static_cast<Desc *>(descriptor);
  d->final = true;
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !knows(all<const Desc *>(part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
                               CUDNN_ATTR_OPERATIONGRAPH_OPS))) {
    return refuse("no engine for this graph");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t most, int64_t *count,
                                       void *into)
{
  const Desc *d = static_cast<const Desc *>(descriptor);
  *count = 1;
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    for (*count = 0; *count < ENGINES && *count < most; ++*count) {
      Desc *config = static_cast<Desc **>(into)[*count];
      put(config, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, *count);
      put(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
          part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      config->final = true;
    }
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    put(*static_cast<Desc **>(into), CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
        one<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1));
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    *count = one<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1) == 0;
    if (*count == 1) {
      *static_cast<cudnnBackendNumericalNote_t *>(into) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    *static_cast<int64_t *>(into) = WORKSPACE;
    return CUDNN_STATUS_SUCCESS;
  default:
    return refuse("the stand-in has no attribute %d to give", name);
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
  const Desc *p = static_cast<const Desc *>(pack);
  const Desc *config =
      part(static_cast<const Desc *>(plan), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Desc *graph = part(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  std::vector<int64_t> uids = all<int64_t>(p, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  std::vector<void *> data = all<void *>(p, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Run run;

  if (!p->final || !static_cast<const Desc *>(plan)->final) return refuse("not finalized");
  run.ops = all<const Desc *>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  run.workspace = one<void *>(p, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  for (size_t i = 0; i < uids.size(); i++)
    run.memory[uids[i]] = data[i];
  for (const Desc *d : tensors_of(run.ops)) {
    Tensor t(d);
    if (t.is_virtual) continue;
    if (run.memory.count(t.uid) == 0) {
      return refuse("nothing is bound to tensor %lld", static_cast<long long>(t.uid));
    }
    uintptr_t at = reinterpret_cast<uintptr_t>(run.memory[t.uid]);
    if (t.by_value) {
      run.numbers[t.uid] = load(run.memory[t.uid], 0, t.type);
    } else if (at == 0 ||
               at % static_cast<uintptr_t>(one<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1)) !=
                   0) {
      return refuse("tensor %lld is not aligned as it was promised", static_cast<long long>(t.uid));
    }
  }
  fake::Lock held;
  return fake::enqueue(reinterpret_cast<Handle *>(handle)->stream,
                       [run]() mutable { run.all_of_it(); }) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

#endif
