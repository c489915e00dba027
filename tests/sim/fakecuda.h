// SPDX-License-Identifier: MIT
//
// What the parts of the stand-in for the CUDA runtime share: the lock, errors, and pending work.
#ifndef RIDGE_SIM_FAKECUDA_H
#define RIDGE_SIM_FAKECUDA_H

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct rgsim_asked;

namespace fake
{

// -- Lock and errors (fakecuda.cpp) -----------------------------------------------------

// Every function of the runtime holds it from beginning to end; pending work runs under it.
extern std::mutex mutex;
struct Lock {
  std::lock_guard<std::mutex> guard{ mutex };
};

// Remembers an error for cudaGetLastError, and gives it back.
cudaError_t error(cudaError_t e);

// The same, and says on stderr what is wrong: for what a correct program never does.
__attribute__((format(printf, 2, 3))) cudaError_t misuse(cudaError_t e, const char *format, ...);

// Work has gone wrong after its call returned: from now on every call fails, as on the device.
__attribute__((format(printf, 2, 3))) void fault(cudaError_t e, const char *format, ...);

// The same, silently: a device says nothing either.
void lose(cudaError_t e);

// What a test wants this kernel to go wrong with; cudaSuccess: it is to run (fakecuda_fault.cpp).
cudaError_t fault_of(const void *kernel);

// Does a test want this call of this function refused? (fakecuda_fault.cpp)
bool refused(const char *call);

// Its C++ name, or "" (fakecuda_names.cpp).
std::string kernel_name(const void *kernel);
std::string kernel_symbol(const void *kernel); // the same, mangled
bool is_watched(void);

// Something that a device is asked for: what a watcher is told of it (fakecuda_watch.cpp). With
// this around it a piece of work says when it began and ended; not in a capture.
std::function<void()> watched(const rgsim_asked &what, std::function<void()> run);

// Remembers how a kernel was launched (fakecuda_launches.cpp).
void count_launch(const void *kernel, dim3 grid, dim3 block, size_t smem);

// What makes every call fail: the error of fault(), or no device at all; else success.
cudaError_t broken(void);

int device_count(void);
int current_device(void);
int capability(void); // 90 for 9.0
size_t memory_total(void);

// One more of rgsim_count.
void count(int what);

// Does a range lie inside one allocation of device memory? (fakecuda_memory.cpp)
bool in_device_memory(const void *p, size_t bytes);

// -- Pending work (fakecuda_work.cpp) ------------------------------------------------------

struct Node;
typedef std::shared_ptr<Node> Work;

struct Node {
  std::function<void()> run; // may be empty: a point in the order of things
  std::function<bool()> may; // may be empty: can it run now? Asked when what is in `after` is done
  std::vector<Work> after;   // what has to be done first; emptied when done
  int device = 0;
  bool done = false;
};

struct Capture {
  CUstream_st *origin = nullptr;
  std::vector<Work> nodes; // in the order of the calls, so each one's `after` comes before it
  std::set<CUstream_st *> streams;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool active = true, invalid = false;
};

// Puts work at the end of a stream; while the stream is captured, into its graph.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, Work *node = nullptr);

// Work that is in no stream, with nothing but its dependencies.
Work enqueue_after(std::vector<Work> after, int device, std::function<void()> run,
                   std::function<bool()> may = nullptr);

// What the next work of this stream will come after.
std::vector<Work> before_next(CUstream_st *s);

// Runs pending work until this is done; which work, and how much more of it, is up to the order.
void wait(const Work &work);
void wait_all(const std::vector<Work> &work);
void wait_device(int device);
void host_waits(const std::vector<Work> &work); // and is counted, if there is something to wait for
void wait_everything(void);

// Runs one piece of pending work, as time goes by on a real device; false: none can run now.
bool progress(void);

// For calls that a capture forbids: an error, and the capture is lost.
cudaError_t forbid_in_capture(void);
cudaError_t forbid_in_capture_of(CUstream_st *s);

// The stream that a handle means, or null after a report.
CUstream_st *stream_of(cudaStream_t handle);

size_t live_streams_and_events(void);
size_t live_graphs(void);

} // namespace fake

struct CUstream_st {
  std::vector<fake::Work> last;    // what the next work comes after
  std::vector<fake::Work> outside; // the same, put aside while a capture goes on
  std::shared_ptr<fake::Capture> capture;
  int device = 0;
  bool blocking = true; // it and the legacy stream wait for each other
};

struct CUevent_st {
  std::vector<fake::Work> at;
  std::shared_ptr<fake::Capture> capture; // the capture that it was recorded in
  std::shared_ptr<double> time;           // seconds; negative until the device passes it
  int device = 0;
  bool recorded = false, timing = true;
};

// What is counted since the process began.
enum rgsim_count {
  RGSIM_LAUNCHES,    // kernels that were launched, those of graphs not among them
  RGSIM_CAPTURED,    // kernels that were captured
  RGSIM_GRAPHS,      // launches of graphs
  RGSIM_WAITS,       // of the host for work under way; copies of much pageable memory are some too
  RGSIM_ALLOCATIONS, // of device and pinned memory
  RGSIM_UPLOADS,     // copies from the host
  RGSIM_DOWNLOADS,   // copies to the host
  RGSIM_MOVES,       // copies between devices, or inside one
  RGSIM_IDLE,        // waits of the host after which no device has anything to do
  RGSIM_LIMITS,      // kernels that were allowed more shared memory
  RGSIM_PEERS,       // devices that were let into the memory of another one
  RGSIM_DNN,         // graphs of cuDNN, each asked for or captured
  RGSIM_PLANS,       // of cuDNN, which compiles them
  RGSIM_COUNTS
};

enum rgsim_asked_kind { RGSIM_ASKED_KERNEL, RGSIM_ASKED_COPY, RGSIM_ASKED_FILL };
struct rgsim_asked {
  rgsim_asked_kind kind;
  std::string name; // of a kernel, mangled
  dim3 grid, block;
  size_t smem, bytes;
  cudaMemcpyKind direction;
  int device;
  const void *stream;
};

// Who looks on at what devices do, as CUPTI does: tests/sim/fakecupti.cpp.
struct rgsim_watcher {
  uint64_t (*asked)(const rgsim_asked *what); // by the thread that asks; gives a number
  void (*began)(uint64_t number);
  void (*ended)(uint64_t number);
};

// The stand-in's own questions, for tests.
#define RGSIM_API __attribute__((visibility("default")))
extern "C" {
RGSIM_API size_t rgsim_counted(int what);

// The launches since it was asked last, at most 256, a line each: blocks, threads, bytes of dynamic
// shared memory, name, between tabs; returns how long the text is, of which `room` - 1 are written.
RGSIM_API size_t rgsim_launched(char *text, size_t room);
RGSIM_API size_t rgsim_live_allocations(void);            // device and pinned memory
RGSIM_API size_t rgsim_live_handles(void);                // streams, events, graphs
RGSIM_API void rgsim_watch(const rgsim_watcher *watcher); // null: nobody

// Work at the end of a stream that waits for somebody outside until `may` says that it can run:
// collectives (fakenccl.cpp). A capture of it is not covered.
RGSIM_API cudaError_t rgsim_work(cudaStream_t stream, const std::function<bool()> *may,
                                 const std::function<void()> *run);
RGSIM_API int rgsim_device(void); // of this thread
RGSIM_API bool rgsim_is_device_memory(const void *p, size_t bytes, bool locked);
}

#endif
