/* SPDX-License-Identifier: MIT */
/*
** The group of this process: is there a launcher, and where is the library for its messages?
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/group.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rg_group *own;
static int32_t own_library; /* what it was opened as */
static bool in_vain;        /* the others were waited for, and it is being opened still */

/* What launchers set in each process that they start. */
static const char *launcher(void)
{
  return getenv("OMPI_COMM_WORLD_SIZE") != NULL ? "OMPI_COMM_WORLD_SIZE"
         : getenv("PMIX_RANK") != NULL          ? "PMIX_RANK"
                                                : NULL;
}

/* How many copies of this process somebody started who told them nothing of each other: srun
** without --mpi=pmix, another MPI's launcher. */
static int copies(void)
{
  const char *told[] = { getenv("SLURM_STEP_NUM_TASKS"), getenv("PMI_SIZE") };
  int most = 1;

  for (size_t i = 0; launcher() == NULL && i < sizeof(told) / sizeof(*told); i++) {
    if (told[i] != NULL) most = (int)rg_max_i64(most, strtol(told[i], NULL, 10));
  }
  return most;
}

/* The folder that the file with this code is in, behind links, then the library's name. */
static void beside(char *path, size_t size)
{
  Dl_info info;
  const char *slash;
  char *whole;

  snprintf(path, size, "libridge_mpi.so");
  if (dladdr(&own, &info) == 0 || info.dli_fname == NULL) {
    return;
  }
  /* without a slash it is a program that was found on the PATH */
  whole = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL);
  slash = whole != NULL ? strrchr(whole, '/') : NULL;
  if (slash != NULL) {
    snprintf(path, size, "%.*s/libridge_mpi.so", (int)(slash - whole), whole);
  }
  free(whole);
}

void rg_group_path(char *path, int64_t size)
{
  const char *given = getenv("RIDGE_MPI");

  if (given != NULL && given[0] != '\0') {
    snprintf(path, (size_t)size, "%s", given);
  } else {
    beside(path, (size_t)size);
  }
}

/* Its names are everybody's: Open MPI's parts look for them. */
static rg_status open_library(void *argument, rg_transport *out)
{
  const rg_transport_host host = { .abi = RG_TRANSPORT_ABI, .fail = (rg_fail) };
  rg_transport_entry *entry;
  char path[4096];
  void *library;

  (void)argument;
  rg_group_path(path, sizeof(path));
  library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    return rg_fail(RG_ENET,
                   "dist: the library for MPI is not there (%s); the package ridge-mpi has it, "
                   "and it is built where libopenmpi-dev is",
                   dlerror());
  }
  entry = (rg_transport_entry *)(uintptr_t)dlsym(library, "rg_mpi_transport");
  if (entry == NULL) {
    return rg_fail(RG_ENET, "dist: %s has no function rg_mpi_transport", path);
  }
  return entry(&host, out);
}

/* A process that fails ends without the others: the launcher sees that, and ends them. */
static void at_exit(int status, void *argument)
{
  (void)argument;
  if (status == 0) {
    rg_group_release(own);
    own = NULL;
  }
}

/* The last handler is the first to run: what was opened before it is still there then, and the
** group is ended by the first of its handlers. */
rg_status rg_group_end_before(void)
{
  return on_exit(at_exit, NULL) == 0
             ? RG_OK
             : rg_fail(RG_ESYS, "dist: the end of the process cannot be watched");
}

static rg_status open_own(int32_t library, double patience)
{
  const bool messages = library == RG_GROUP_MPI || (library == RG_GROUP_AUTO && launcher());
  rg_status status;

  if (library < RG_GROUP_AUTO || library > RG_GROUP_ALONE) {
    return rg_fail(RG_EARG, "dist: there is no library %d", library);
  }
  if (library == RG_GROUP_MPI && launcher() == NULL) {
    return rg_fail(RG_ENET,
                   "dist: no launcher (ridge launch, mpirun, srun --mpi=pmix) started this "
                   "process, so there are no others");
  }
  if (library == RG_GROUP_AUTO && own == NULL && copies() > 1) {
    return rg_fail(RG_ENET,
                   "dist: %d copies of this process were started that know nothing of each other; "
                   "ridge launch, mpirun of Open MPI and srun --mpi=pmix start ranks, and with "
                   "backend = 'none' each is alone",
                   copies());
  }
  if (own != NULL) {
    return library == own_library || library == RG_GROUP_AUTO
               ? RG_OK
               : rg_fail(RG_EARG, "dist: this process has a group already, over %s",
                         rg_group_library(own));
  }
  if (in_vain) {
    return rg_fail(RG_ENET, "dist: this process has waited in vain for the others, and cannot join "
                            "them any more");
  }
  if (!(patience >= 0 && patience <= 1e9)) {
    return rg_fail(RG_EARG, "dist: a patience is 0 s or more, got %g", patience);
  }
  rg_aside_stays((void (*)(void))open_own); /* the thread and at_exit run when Lua is gone */
  status = rg_group_new(messages ? open_library : NULL, NULL, (int64_t)(patience * 1e9), &own);
  in_vain = status == RG_ELATE || status == RG_EINTR;
  if (status != RG_OK) {
    return status;
  }
  own_library = messages ? RG_GROUP_MPI : RG_GROUP_ALONE;
  return rg_group_end_before();
}

rg_status rg_group_open(int32_t library, double patience, rg_group **out)
{
  rg_status status;

  pthread_mutex_lock(&lock);
  status = open_own(library, patience);
  if (status == RG_OK) *out = own;
  pthread_mutex_unlock(&lock);
  return status;
}
