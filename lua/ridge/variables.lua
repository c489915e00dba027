-- SPDX-License-Identifier: MIT
--- The environment variables that ridge reads (F203), and those that others obey and ridge does
--- not. GNU OpenMP has more of its own (OMP_PROC_BIND and others); every measurement records them.

local M = {}

local WIDTH = 86 -- of a line

local HOME = 'where files of a user are, when the XDG variables do not say'

-- Name, what it does.
local READ = {
  { 'OMP_NUM_THREADS', 'compute threads; one for each usable processor where it is not set' },
  { 'RIDGE_ISA', 'instruction set of the kernels: base, avx2, avx512, avx512_bf16, amx' },
  { 'RIDGE_GEMM', 'what computes products: auto, onednn, openblas, own' },
  { 'RIDGE_GPU', "path of the GPU's library" },
  { 'RIDGE_MPI', 'path of the library for MPI' },
  { 'RIDGE_CUDNN', 'path of cuDNN' },
  { 'RIDGE_NVRTC', 'path of NVRTC' },
  { 'RIDGE_NCCL', 'path of NCCL; none: as if there were none' },
  { 'RIDGE_CUPTI', 'path of CUPTI' },
  { 'RIDGE_DB', 'the database of results' },
  { 'RIDGE_LOCKS', 'folder of the locks of those who measure' },
  { 'RIDGE_PATH', 'folders in which recipes are found' },
  { 'RIDGE_LUA', 'folder of the sources in Lua, instead of the embedded ones' },
  { 'RIDGE_LIBRARY', 'path of the core, where LuaJIT loads it' },
  { 'RIDGE_HISTORY', 'file of the lines typed at the prompt' },
  { 'RIDGE_TRACE', 'how much of a stack an error shows at the prompt' },
  { 'RIDGE_CHOICES', 'off: sweeps take no path that ridge autotune found' },
  { 'RIDGE_PROGRESS', 'how a sweep shows how far it is' },
  { 'RIDGE_WORKER', 'what a sweep asks of a process that measures for it' },
  { 'RIDGE_CHECK', '1: every invariant of a graph is checked behind each pass' },
  { 'RIDGE_ALLOC_FAIL', 'tests: the allocation that fails' },
  { 'RIDGE_ALLOC_WATCH', 'tests: memory that is free is poisoned for the address sanitizer' },
  { 'RIDGE_ALLOC_POISON', 'tests: memory is filled with nan when it is handed out' },
  { 'SLURM_ARRAY_TASK_ID', 'which part of a sweep this process is' },
  { 'SLURM_ARRAY_TASK_COUNT', 'of how many' },
  { 'SLURM_ARRAY_TASK_MIN', 'the least number of such a process' },
  { 'SLURM_ARRAY_TASK_MAX', 'the greatest' },
  { 'JOB_COMPLETION_INDEX', 'which part, in an indexed job of Kubernetes' },
  { 'PBS_ARRAY_INDEX', 'which part, in an array job of PBS' },
  { 'SGE_TASK_ID', 'which part, in an array job of Grid Engine' },
  { 'SGE_TASK_FIRST', 'the least number of such a process' },
  { 'SGE_TASK_LAST', 'the greatest' },
  { 'SGE_TASK_STEPSIZE', 'and the step between two' },
  { 'OMPI_COMM_WORLD_SIZE', 'set by mpirun: this process is a rank of several' },
  { 'PMIX_RANK', 'likewise, by srun and others' },
  { 'OMPI_COMM_WORLD_RANK', 'set by mpirun: which rank' },
  { 'SLURM_JOB_ID', 'ridge launch is inside a job of Slurm: srun starts ranks' },
  { 'SLURM_JOB_NUM_NODES', 'on so many machines' },
  { 'SLURM_NTASKS', 'as many, where -n is left out' },
  { 'SLURM_CPUS_PER_TASK', 'compute threads of each' },
  { 'SLURM_CPUS_ON_NODE', 'processors that its ranks share, where nobody said' },
  { 'SLURM_STEP_ID', 'it is itself in a step of the job' },
  { 'SLURM_STEP_NUM_TASKS', 'how many copies of this process srun started' },
  { 'PMI_SIZE', 'how many copies another launcher started' },
  { 'RIDGE_LAUNCHED', 'set by ridge launch: the process that looks after a rank' },
  { 'RIDGE_BACKEND', 'likewise: what dist.init takes where its backend is auto' },
  { 'RIDGE_LAUNCH_SECRET', 'likewise: the word by which the launcher knows that process' },
  { 'RIDGE_RESTART', 'likewise: how often the job was started again; world.restart' },
  { 'RIDGE_FIRST_RANKS', 'likewise: ranks of the first start; world.first_size' },
  { 'OMPI_MCA_btl', 'an option of Open MPI, which ridge launch leaves as it is' },
  { 'OMPI_MCA_btl_vader_single_copy_mechanism', 'such an option, too' },
  { 'OMPI_MCA_mpi_yield_when_idle', 'such an option, too' },
  { 'OMPI_MCA_mca_base_param_files', 'files with more of them' },
  { 'OMPI_MCA_mca_param_files', 'the same by its older name' },
  { 'NVTX_INJECTION64_PATH', 'set by profilers of NVIDIA: operations get names' },
  { 'NO_COLOR', 'no colours in a terminal' },
  { 'COLORTERM', 'colours that a terminal has' },
  { 'TERM', 'the terminal' },
  { 'TERM_PROGRAM', 'the terminal, for pictures' },
  { 'KITTY_WINDOW_ID', 'the terminal, for pictures' },
  { 'TMUX', 'no pictures: it would swallow them' },
  { 'PATH', 'where ridge.measure.external looks for a program' },
  { 'PAGER', 'what ridge docs is read through; less where it is not set' },
  { 'LESS', 'the options of less, instead of those that ridge docs would take' },
  { 'VISUAL', 'the editor of %edit' },
  { 'EDITOR', 'the editor of %edit, where VISUAL is not set' },
  { 'HOME', HOME },
  { 'XDG_STATE_HOME', 'where the history is' },
  { 'XDG_DATA_HOME', 'where recipes are, and kernels of Jupyter' },
  { 'JUPYTER_DATA_DIR', 'where Jupyter looks for kernels' },
  { 'JPY_PARENT_PID', 'set by Jupyter: a kernel ends when this process is gone' },
  { 'XDG_CACHE_HOME', "where what a GPU's libraries found is kept" },
  { 'XDG_RUNTIME_DIR', 'where locks are' },
  { 'OMP_WAIT_POLICY', 'how compute threads wait; by how busy the machine is where it is not set' },
  { 'GOMP_SPINCOUNT', 'likewise, as a number of turns' },
}

-- What other libraries take threads from; here it does nothing.
local IGNORED = { 'RAYON_NUM_THREADS', 'MKL_NUM_THREADS' }

--- The variables that ridge reads, with their values now.
---@return table list of {name =, does =, value = text or nil}
---@return table ignored list of {name =, value =}: set, obeyed by others, and of no effect here
-- >> ridge.backend.variables()[1].name
function M.all()
  local list, ignored = {}, {}
  for i, each in ipairs(READ) do
    list[i] = { name = each[1], does = each[2], value = os.getenv(each[1]) }
  end
  for _, name in ipairs(IGNORED) do
    if os.getenv(name) then ignored[#ignored + 1] = { name = name, value = os.getenv(name) } end
  end
  return list, ignored
end

--- Lines about them: those that are set with their values, then the names of the others.
---@return table list of texts
function M.lines()
  local list, ignored = M.all()
  local lines, others = {}, {}
  for _, v in ipairs(list) do
    if v.value then
      lines[#lines + 1] = ('%s=%s: %s'):format(v.name, v.value, v.does)
    else
      others[#others + 1] = v.name
    end
  end
  for _, v in ipairs(ignored) do
    lines[#lines + 1] = ('%s=%s: not read here; OMP_NUM_THREADS is'):format(v.name, v.value)
  end
  local line = 'read where they are set:'
  for _, name in ipairs(others) do
    if #line + #name > WIDTH then
      lines[#lines + 1] = line
      line = ' '
    end
    line = line .. ' ' .. name
  end
  lines[#lines + 1] = line
  return lines
end

return M
