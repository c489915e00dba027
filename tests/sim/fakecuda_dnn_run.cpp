// SPDX-License-Identifier: MIT
//
// The stand-in for cuDNN: what the operations of a graph compute.
#if __has_include(<cudnn_graph.h>)

#include "fakecuda.h"
#include "fakecuda_dnn.h"

namespace fake
{

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
  case CUDNN_POINTWISE_TANH_FWD: {
    const float e = std::exp(2 * (float)x);  // NaN from 44.4 on, as cuDNN 9.19's is on an H200
    return (e - 1) / (e + 1);
  }
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

// Is all memory still there?  A graph can outlive it.
bool Run::is_there(void) const
{
  for (auto &[uid, data] : memory) {
    if (!numbers.count(uid) && !in_device_memory(data, 1)) return false;
  }
  return in_device_memory(workspace, WORKSPACE);
}

void Run::all_of_it(void)
{
  if (!is_there()) {
    fault(cudaErrorIllegalAddress, "a graph of cuDNN in memory that is gone");
    return;
  }
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

} // namespace fake

#endif
