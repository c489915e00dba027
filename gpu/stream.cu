/* SPDX-License-Identifier: MIT */
/*
** Streams of the devices, marks (CUDA events) in them, and graphs of what a plan asks for.
**
** Streams are made when they are entered first.  They do not wait for the legacy default stream,
** which nothing here uses.
*/
#include <mutex>

#include "gpu/late.cuh"
#include "gpu/stream.cuh"

static cudaStream_t streams[RG_DEVICES][RG_STREAMS];
static std::mutex lock;
static thread_local uint8_t now[RG_DEVICES];
static thread_local cudaStream_t capturing[RG_DEVICES]; /* NULL: no graph is captured */

/* -- Streams ----------------------------------------------------------------------------------- */

static cudaStream_t stream_of(int32_t device, int32_t index)
{
  cudaStream_t *at = &streams[device][index];

  (void)cudaSetDevice(device - 1);
  if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == NULL) {
    (void)rg_late_of(device); /* now, because no capture may allocate it */
    std::lock_guard<std::mutex> held(lock);
    cudaStream_t made = NULL;

    if (*at == NULL && cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess) {
      __atomic_store_n(at, made, __ATOMIC_RELEASE);
    } else if (*at == NULL) {
      (void)cudaGetLastError(); /* the default one works as well, only slower beside others */
    }
  }
  return *at;
}

int32_t rg_gpu_stream_now(int32_t device)
{
  return now[device];
}

cudaStream_t rg_gpu_stream(int32_t device)
{
  cudaStream_t stream = stream_of(device, now[device]);

  return capturing[device] != NULL ? capturing[device] : stream;
}

void rg_gpu_enter(int32_t device, int32_t stream)
{
  now[device] = (uint8_t)stream;
}

rg_status rg_gpu_join(int32_t device, int32_t to, uint32_t others)
{
  void *mark;
  rg_status status;

  RG_TRY(rg_gpu_mark_new(device, &mark));
  status = RG_OK;
  for (int32_t i = 0; i < RG_STREAMS && status == RG_OK; i++) {
    if (i != to && (others >> i & 1) != 0) {
      cudaError_t error = cudaEventRecord((cudaEvent_t)mark, stream_of(device, i));

      if (error == cudaSuccess) {
        error = cudaStreamWaitEvent(stream_of(device, to), (cudaEvent_t)mark, 0);
      }
      status = rg_gpu_status("stream", error);
    }
  }
  rg_gpu_mark_free(device, mark); /* what waits for it goes on waiting */
  return status;
}

/* -- Marks ------------------------------------------------------------------------------------- */

rg_status rg_gpu_mark_new(int32_t device, void **mark)
{
  cudaEvent_t event;

  RG_CUDA("event", cudaSetDevice(device - 1));
  RG_CUDA("event", cudaEventCreate(&event));
  *mark = event;
  return RG_OK;
}

void rg_gpu_mark_free(int32_t device, void *mark)
{
  (void)cudaSetDevice(device - 1);
  (void)cudaEventDestroy((cudaEvent_t)mark);
}

rg_status rg_gpu_mark_set(int32_t device, void *mark)
{
  return rg_gpu_status("event", cudaEventRecord((cudaEvent_t)mark, rg_gpu_stream(device)));
}

rg_status rg_gpu_mark_follow(int32_t device, void *mark)
{
  return rg_gpu_status("event", cudaStreamWaitEvent(rg_gpu_stream(device), (cudaEvent_t)mark, 0));
}

rg_status rg_gpu_mark_wait(int32_t device, void *mark)
{
  RG_CUDA("event", cudaSetDevice(device - 1));
  RG_CUDA("event", cudaEventSynchronize((cudaEvent_t)mark));
  return rg_late_told(device);
}

rg_status rg_gpu_mark_between(int32_t device, void *from, void *to, double *ns)
{
  float ms = 0;

  RG_CUDA("event", cudaSetDevice(device - 1));
  RG_CUDA("event", cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to));
  *ns = (double)ms * 1e6;
  return RG_OK;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

/* On a stream of its own: what other threads ask this one's stream for meanwhile is not captured.
** Workspaces and libraries are those of this thread's stream, where the graph is to run. */
rg_status rg_gpu_graph_begin(int32_t device)
{
  cudaStream_t made = NULL;

  (void)rg_gpu_stream(device);
  RG_CUDA("graph", cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  cudaError_t error = cudaStreamBeginCapture(made, cudaStreamCaptureModeThreadLocal);

  if (error != cudaSuccess) {
    (void)cudaStreamDestroy(made);
  }
  RG_CUDA("graph", error);
  capturing[device] = made;
  return RG_OK;
}

rg_status rg_gpu_graph_end(int32_t device, void **graph)
{
  cudaGraph_t captured = NULL;
  cudaGraphExec_t made = NULL;
  cudaError_t error = cudaStreamEndCapture(capturing[device], &captured);

  *graph = NULL;
  (void)cudaStreamDestroy(capturing[device]);
  capturing[device] = NULL;
  if (error == cudaSuccess) {
    error = cudaGraphInstantiate(&made, captured, 0);
  }
  if (captured != NULL) {
    (void)cudaGraphDestroy(captured);
  }
  RG_CUDA("graph", error);
  *graph = made;
  return RG_OK;
}

rg_status rg_gpu_graph_run(int32_t device, void *graph)
{
  return rg_gpu_status("graph", cudaGraphLaunch((cudaGraphExec_t)graph, rg_gpu_stream(device)));
}

void rg_gpu_graph_free(int32_t device, void *graph)
{
  (void)cudaSetDevice(device - 1);
  (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
}
