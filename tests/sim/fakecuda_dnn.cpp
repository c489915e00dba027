// SPDX-License-Identifier: MIT
//
// A stand-in for cuDNN's backend interface, in the simulator only: it computes what a graph says,
// one operation after the other, in double.  So the graphs that ridge builds, what it binds to them
// and what it copies for them are run in the tests; how cuDNN's engines compute them is not.
//
// It is as strict as the real one where that is known: descriptors are finalized before they are
// used, memory lies as aligned as it was promised, numbers by value are read at the call, the
// workspace is written to, and nothing is started or compiled in a capture.  It has two engines, of
// which the first says that its bits differ from run to run, and takes no bias or activation after a
// convolution with channels first.  With RG_SIM_DNN_NVRTC=0 it finds no compiler for them.
#if __has_include(<cudnn_graph.h>)

#include "fakecuda.h"
#include "fakecuda_dnn.h"

#include <cstdarg>
#include <cstdlib>

using namespace fake;

namespace
{

// -- Descriptors ---------------------------------------------------------------------------

struct Handle {
  cudaStream_t stream = nullptr;
};

enum { ENGINES = 2 };

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
  const char *said = getenv("RG_SIM_DNN_VERSION");  // 91400 for 9.14.0
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
  count(RGSIM_DNN);
  return enqueue(reinterpret_cast<Handle *>(handle)->stream,
                 [run]() mutable { run.all_of_it(); }) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

#endif
