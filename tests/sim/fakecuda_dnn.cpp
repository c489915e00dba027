// SPDX-License-Identifier: MIT
//
// A stand-in for cuDNN's backend interface, in the simulator only: it computes what a graph says,
// one operation after the other, in double.  So the graphs that ridge builds, what it binds to them
// and what it copies for them are run in the tests; how cuDNN's engines compute them is not.
//
// It is as strict as the real one where that is known: descriptors are finalized before they are
// used, memory lies as aligned as it was promised, numbers by value are read at the call, the
// workspace is written to, what a descriptor cannot be without is there, and nothing is started or
// compiled in a capture.  It has two engines (or RG_SIM_DNN_ENGINES), of which the first says that
// its bits differ from run to run, and takes no bias or activation after a convolution with channels
// first.  With RG_SIM_DNN_NVRTC=0 it finds no compiler for them.  The engine RG_SIM_DNN_FAILS is
// planned and does not run, which leaves an error of the runtime behind; as a library that asks
// after its launches, an engine takes such an error for its own.
#if __has_include(<cudnn_graph.h>)

#include "fakecuda.h"
#include "fakecuda_dnn.h"

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <map>

using namespace fake;

namespace
{

// -- Descriptors ---------------------------------------------------------------------------

struct Handle {
  cudaStream_t stream = nullptr;
};

// Engines that it proposes; those behind the second are like that.
int64_t engines(void)
{
  const char *many = getenv("RG_SIM_DNN_ENGINES");
  return many ? atoll(many) : 2;
}

thread_local char last_error[200];

__attribute__((format(printf, 1, 2))) cudnnStatus_t refuse(const char *format, ...)
{
  va_list list;
  va_start(list, format);
  vsnprintf(last_error, sizeof(last_error), format, list);
  va_end(list);
  return CUDNN_STATUS_BAD_PARAM;
}

// What a correct program never does: the device would read what is not its own.
[[noreturn]] void misuse(const char *what, int64_t uid)
{
  fprintf(stderr, "cuDNN's stand-in: tensor %lld %s\n", static_cast<long long>(uid), what);
  abort();
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

template <class T> void put(Desc *d, cudnnBackendAttributeName_t name, T value)
{
  std::vector<unsigned char> &bytes = d->attributes[name];
  bytes.resize(sizeof(T));
  memcpy(bytes.data(), &value, sizeof(T));
}

std::atomic<int64_t> live; // descriptors that were made and not destroyed

// -- What a descriptor must have -------------------------------------------------------------

#define CONVOLUTION(NAME, X, W, Y)                                              \
  {                                                                             \
    CUDNN_ATTR_OPERATION_##NAME##_CONV_DESC, CUDNN_ATTR_OPERATION_##NAME##_##X, \
        CUDNN_ATTR_OPERATION_##NAME##_##W, CUDNN_ATTR_OPERATION_##NAME##_##Y,   \
        CUDNN_ATTR_OPERATION_##NAME##_ALPHA, CUDNN_ATTR_OPERATION_##NAME##_BETA \
  }

const std::map<cudnnBackendDescriptorType_t, std::vector<cudnnBackendAttributeName_t>> REQUIRED = {
  { CUDNN_BACKEND_TENSOR_DESCRIPTOR,
    { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
      CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT } },
  { CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
    { CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC } },
  { CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    { CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC } },
  { CUDNN_BACKEND_MATMUL_DESCRIPTOR, { CUDNN_ATTR_MATMUL_COMP_TYPE } },
  { CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
    { CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
      CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC } },
  { CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
    { CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_COMP_TYPE } },
  { CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    { CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
      CUDNN_ATTR_OPERATION_REDUCTION_YDESC } },
  { CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
    { CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC } },
  { CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
    { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
      CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
      CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
      CUDNN_ATTR_CONVOLUTION_POST_PADDINGS } },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CONVOLUTION(CONVOLUTION_FORWARD, X, W, Y) },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CONVOLUTION(CONVOLUTION_BWD_DATA, DX, W, DY) },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CONVOLUTION(CONVOLUTION_BWD_FILTER, X, DW, DY) },
  { CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    { CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_OPS } },
  { CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
    { CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE } },
  { CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
    { CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_HANDLE } },
  { CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
    { CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
      CUDNN_ATTR_VARIANT_PACK_WORKSPACE } },
};

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

extern "C" RGSIM_API int64_t rgsim_dnn_live(void)
{
  return live;
}

size_t cudnnGetVersion(void)
{
  const char *said = getenv("RG_SIM_DNN_VERSION"); // 91400 for 9.14.0
  return said ? strtoul(said, nullptr, 10) : 91900;
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
  Lock held;
  if (forbid_in_capture()) return refuse("a handle is made while a graph is captured");
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
  live++;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
  delete static_cast<Desc *>(d);
  live--;
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
  Lock held;
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && forbid_in_capture()) {
    return refuse("an engine is compiled while a graph is captured");
  }
  const char *compiler = getenv("RG_SIM_DNN_NVRTC");
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && compiler && *compiler == '0') {
    return refuse("libnvrtc.so.13: cannot open shared object file");
  }
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) count(RGSIM_PLANS);
  if (d->type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR &&
      one<int32_t>(d, CUDNN_ATTR_POINTWISE_MODE, -1) != CUDNN_POINTWISE_GEN_INDEX &&
      one<int64_t>(d, CUDNN_ATTR_POINTWISE_AXIS, -1) >= 0) { // only indices have one
    return refuse("an axis, where no index is made");
  }
  const auto required = REQUIRED.find(d->type);
  for (size_t i = 0; required != REQUIRED.end() && i < required->second.size(); i++) {
    if (d->attributes.count(required->second[i]) == 0) {
      return refuse("attribute %d is missing", required->second[i]);
    }
  }
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
    for (*count = 0; *count < engines() && *count < most; ++*count) {
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
    if (const char *note = getenv("RG_SIM_DNN_NOTE")) { // of all engines
      *static_cast<cudnnBackendNumericalNote_t *>(into) = (cudnnBackendNumericalNote_t)atoi(note);
      return CUDNN_STATUS_SUCCESS;
    }
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
    if (run.memory.count(t.uid) == 0) misuse("is bound to nothing", t.uid);
    uintptr_t at = reinterpret_cast<uintptr_t>(run.memory[t.uid]);
    int64_t align = one<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
    if (t.by_value) {
      run.numbers[t.uid] = load(run.memory[t.uid], 0, t.type);
    } else if (at == 0 || at % static_cast<uintptr_t>(align) != 0) {
      misuse("is not aligned as it was promised", t.uid);
    }
  }
  Lock held;
  const char *fails = getenv("RG_SIM_DNN_FAILS");
  if (fails && atoll(fails) == one<int64_t>(config, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1)) {
    error(cudaErrorInvalidConfiguration);
  }
  if (cudaPeekAtLastError() != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  count(RGSIM_DNN);
  return enqueue(reinterpret_cast<Handle *>(handle)->stream,
                 [run]() mutable { run.all_of_it(); }) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

#endif
