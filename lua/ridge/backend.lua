-- SPDX-License-Identifier: MIT
--- How work is done: threads, affinity, priority (F24), instruction set, the path of products
--- (F199, F201, F203, F204), how a GPU's kernels are chosen and how much of it is used (F13, F200,
--- F205 to F207), and what the machine is (F1).  Every choice is an option, and `now()` says what
--- is in force so that it can be recorded.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local late = require 'ridge.late'
local options = require 'ridge.options'
local dtype = require 'ridge.tensor.dtype'
local place = require 'ridge.tensor.place'

local M = {}

--- The environment variables that ridge reads (F203).
---@return table list of {name =, does =, value = text or nil}
---@return table ignored list of {name =, value =}: set, obeyed by others, and of no effect here
-- >> ridge.backend.variables()[1].name
function M.variables() return require('ridge.variables').all() end

local ISA, ISA_WORDS = {}, {}
for level = 0, C.RG_ISA_COUNT - 1 do
  local word = ffi.string(C.rg_isa_name(level))
  ISA[word], ISA_WORDS[level + 1] = level, word
end

--- Set the number of compute threads; 0 means one for each processor.
---@param n number
function M.set_threads(n)
  if type(n) ~= 'number' or n ~= math.floor(n) or math.abs(n) > 2 ^ 31 - 1 then
    blame.raise(('set_threads: a whole number is expected, got %s'):format(blame.show(n)))
  end
  call.check(C.rg_set_threads(n), 'set_threads')
end

--- Compute threads in use.
---@return number
function M.threads()
  return C.rg_threads()
end

local bound -- the processors threads are bound to, as text; nil when they are not

--- Bind compute thread i to the i-th listed processor, in turn; {} unbinds.
---@param cpus table processor numbers
function M.set_affinity(cpus)
  if type(cpus) ~= 'table' then
    blame.raise(('set_affinity: a list of processor numbers is expected, got %s'):format(
      blame.show(cpus)))
  end
  for i, cpu in ipairs(cpus) do
    if type(cpu) ~= 'number' or cpu ~= math.floor(cpu) or cpu < 0 or cpu > 65535 then
      blame.raise(('set_affinity: number %d of the list is %s, which is no processor'):format(i,
        blame.show(cpu)))
    end
  end
  if type(cpus) ~= 'table' then
    blame.raise('set_affinity: a list of processor numbers is expected, got ' .. type(cpus))
  end
  local list = ffi.new('int32_t[?]', math.max(1, #cpus))
  for i, cpu in ipairs(cpus) do
    if type(cpu) ~= 'number' then
      blame.raise('set_affinity: a processor is a number, got ' .. type(cpu))
    end
    list[i - 1] = cpu
  end
  call.check(C.rg_set_affinity(list, #cpus), 'set_affinity')
  bound = #cpus > 0 and table.concat(cpus, ',') or nil
end

--- Set the priority of this process and of the processes it starts: -20 before all others, 0 as
--- usual, 19 behind all others.  Less than now needs a privilege (CAP_SYS_NICE).
---@param nice number
-- >> ridge.backend.set_priority(5)
function M.set_priority(nice)
  if type(nice) ~= 'number' or nice ~= math.floor(nice) or math.abs(nice) > 20 then
    blame.raise('set_priority: a whole number from -20 to 19 is expected, got '
      .. blame.show(nice))
  end
  call.check(C.rg_set_priority(nice))
end

--- The priority of this process, -20 .. 19.  It is not part of what makes numbers comparable: where
--- nobody else runs it changes nothing, and where somebody does, the flags say so.
---@return number nice
function M.priority()
  return C.rg_priority()
end

--- Choose the instruction set of ridge's own kernels: 'base', 'avx2', 'avx512',
--- 'avx512_bf16' (products of bf16 in pairs) or 'amx' (on tile registers).
---@param name string one of these, up to what the machine has
function M.set_isa(name)
  if not ISA[name] then
    blame.raise(('set_isa: %s is not one of %s'):format(blame.show(name),
      table.concat(ISA_WORDS, ', ')))
  end
  call.check(C.rg_set_isa(ISA[name]))
end

--- Choose who computes products: 'auto' (what ridge.autotune measured, else ridge's own kernels
--- where the machine has AVX2, and oneDNN without it), 'onednn', 'openblas' or 'own'. Plans and
--- graphs go on with what was chosen when they were captured.
---@param path string 'auto', 'onednn', 'openblas' or 'own'
function M.set_gemm(path)
  if type(path) ~= 'string' then
    blame.raise(('set_gemm: the name of a path is expected, got %s'):format(blame.show(path)))
  end
  if C.rg_set_gemm_path(path) ~= 0 then
    blame.raise(('set_gemm: there is no way for products called %s; known: auto, onednn, openblas, '
      .. 'own'):format(blame.show(path)))
  end
end

local CPU = {
  threads = { 'integer', min = 0, max = 1024, doc = 'compute threads; 0: all processors' },
  affinity = { 'table', doc = 'processor numbers, one for each thread in turn' },
  priority = { 'integer', min = -20, max = 19, doc = 'priority; less is before others' },
  isa = { 'string', choices = ISA_WORDS, doc = 'instruction set' },
  gemm = { 'string', choices = { 'auto', 'onednn', 'openblas', 'own' }, doc = 'path of products' },
  deterministic = { 'boolean', doc = "true: products take no path that was chosen by measuring" },
}

--- A CPU backend with these options; ridge.set_default_backend puts it in force.
---@param opts table|nil {threads =, affinity =, priority =, isa =, gemm =, deterministic =}; the
---  last is of the process, GPUs included: with it on, nothing that ridge.autotune measured is
---  taken, so that bits do not depend on what a clock said
---@return table
-- >> ridge.set_default_backend(ridge.backend.cpu{threads = 1})
function M.cpu(opts)
  local checked = options.check(CPU, opts, 'backend.cpu')
  checked.kind = 'cpu'
  return checked
end

-- -- GPUs ---------------------------------------------------------------------------------

local MODES = { 'vendor', 'autotune', 'deterministic', 'tf32' }
local CUDA = {
  device = { 'integer', default = 0, min = 0, max = 15, doc = 'number of the GPU' },
  vendor = { 'boolean', default = true,
    doc = "cublasLt and cuDNN where they have a kernel; false: ridge's own kernels only" },
  autotune = { 'boolean', default = true,
    doc = "cublasLt's candidates are timed once for each shape; false: libraries' first choices" },
  autotune_cudnn = { 'boolean', default = false,
    doc = "cuDNN's too, up to seconds each; the fastest is kept in a file" },
  deterministic = { 'boolean', default = false, doc = 'only kernels that give the same bits' },
  tf32 = { 'boolean', default = false,
    doc = 'products of f32 may round their factors to 10 bits, for the tensor cores' },
  memory_fraction = { 'number', min = 0.01, max = 1,
    doc = "of the GPU's memory; all when left out" },
  streams = { 'integer', default = 8, min = 1, max = 8,
    doc = 'streams in use; 1: copies ahead of a loader go with the rest' },
}

--- A CUDA backend with these options; ridge.set_default_backend puts it in force: tensors and
--- layers are made on the GPU from then on where no device is given. The modes are those of the
--- process: what is called by itself, captured and recorded from then on has them. Plans go on
--- under those of their capture; with deterministic = true one that was captured without it is an
--- error where its results may vary.
---@param opts table|nil {device = 0, vendor = true, autotune = true, autotune_cudnn = false,
---  deterministic = false, tf32 = false, memory_fraction =, streams = 8}
---@return table
-- >> if ridge.device.available() then
-- >>   ridge.set_default_backend(ridge.backend.cuda{tf32 = true, memory_fraction = 0.8})
-- >> end
function M.cuda(opts)
  local checked = options.check(CUDA, opts, 'backend.cuda')
  checked.kind = 'cuda'
  return checked
end

local function set_cuda(backend)
  local number = dtype.device(dtype.prefix() .. ':' .. backend.device,
    'set_default_backend')
  local bytes = 0
  if backend.memory_fraction then
    local facts = ffi.new('rg_device_facts')
    call.check(C.rg_device_facts_of(number, facts), 'set_default_backend')
    bytes = math.floor(tonumber(facts.memory_bytes) * backend.memory_fraction)
  end
  call.check(C.rg_memory_set_limit(number, bytes), 'set_default_backend')
  call.refit()
  local modes = C.rg_device_modes_now()
  for _, name in ipairs(MODES) do modes[name] = backend[name] and 1 or 0 end
  if backend.autotune and backend.autotune_cudnn then modes.autotune = 2 end
  place.set_streams(number, backend.streams)
  place.set_default(number)
end

-- What is in force on the GPUs that were opened.
local function cuda_now(out)
  local modes = C.rg_device_modes_now()
  for _, name in ipairs(MODES) do out[name] = modes[name] ~= 0 end
  out.autotune_cudnn = modes.autotune > 1
  if place.default() > 0 then out.device = ffi.string(C.rg_device_name(place.default())) end
  for i = 1, C.RG_DEVICE_COUNT - 1 do
    local m = C.rg_memory_of(i)
    if m == nil then break end
    local name = ffi.string(C.rg_device_name(i))
    if m.limit_bytes > 0 then out[name .. ' memory_limit'] = tonumber(m.limit_bytes) end
    if place.streams(i) < C.RG_STREAMS then out[name .. ' streams'] = place.streams(i) end
  end
end

-- -- In force -----------------------------------------------------------------------------

--- Put a backend's options in force for everything that follows; tensors and layers are made on its
--- device where none is given.
---@param backend table made by ridge.backend.cpu or ridge.backend.cuda
function M.set_default(backend)
  local kind = type(backend) == 'table' and backend.kind
  if kind ~= 'cpu' and kind ~= 'cuda' then
    blame.raise('set_default_backend: a backend made by ridge.backend.cpu{...} or '
      .. 'ridge.backend.cuda{...} is expected')
  end
  if kind == 'cuda' then return set_cuda(backend) end
  place.set_default(0)
  if backend.threads then M.set_threads(backend.threads) end
  if backend.isa then M.set_isa(backend.isa) end
  if backend.gemm then M.set_gemm(backend.gemm) end
  if backend.deterministic ~= nil then
    C.rg_device_modes_now().deterministic = backend.deterministic and 1 or 0
  end
  if backend.affinity then M.set_affinity(backend.affinity) end
  if backend.priority then M.set_priority(backend.priority) end
end

-- Without loading what they are read with.
local function has_choices() return C.rg_choices() > 0 or C.rg_path_costs_count() > 0 end

--- What is in force, as it is recorded with every measurement: threads, isa, gemm, affinity ('0,1';
--- nil where threads run anywhere), and choices (paths that ridge.autotune chose in place of the
--- standard ones, as text; nil where there are none), and deterministic where it is on. Where a GPU
--- was opened, also vendor, autotune, autotune_cudnn, deterministic, tf32, device (the default one,
--- if it is a GPU), and for each GPU with fewer than all of them 'cuda:0 memory_limit' (bytes) and
--- 'cuda:0 streams'.
---@return table
function M.now()
  local out = { threads = C.rg_threads(), isa = ffi.string(C.rg_isa_name(C.rg_isa())),
                gemm = ffi.string(C.rg_gemm_path()), affinity = bound }
  if has_choices() then out.choices = require('ridge.choices').text() end
  if C.rg_device_modes_now().deterministic ~= 0 then out.deterministic = true end
  if C.rg_memory_of(1) ~= nil then cuda_now(out) end
  return out
end

--- What ridge.autotune found of products and convolutions on this machine, in this process, what
--- `load_choices` took of a file, and what `apply` put in force: a list of {m =, k =, n =, ...,
--- path =, paths =, at =}; tostring is a table.
---@return table
-- >> return #ridge.backend.choices()
function M.choices() return require('ridge.choices').all() end

--- Which path each product of a function takes on the CPU where 'auto' decides, which way each
--- convolution and each of its gradients, and by what: measured on this machine (ridge.autotune;
--- `at` says when), expected to be the fastest, or given by another process. Of a plan, which is
--- not run: how each of its steps is computed.
---@param f function|table a function, which is called once; or a plan
---@param ... any its arguments
---@return table list as `choices` gives it, with calls = and by =; of a plan a row a step, in their
---  order: {step =, op =, module =, way = (what computed it, as it names itself; nil: it has one
---  way, or has not run)}, and with the fields of `choices` and by = where it is a product or a
---  convolution (a step of several has as many rows): 'measured', 'given', 'probed', 'expected',
---  'forced' (set_gemm), 'pinned' (`deterministic` was on), 'only' (no other path does it); path is
---  the one it takes, paths the times that are known of it by now. tostring is a table
-- >> local net, x = ridge.nn.Linear(48, 80), ridge.ones(20, 48)
-- >> local plan = ridge.capture(ridge.inference, net, x)
-- >> return #ridge.backend.why(ridge.inference, net, x), ridge.backend.why(plan)[1].by
function M.why(f, ...)
  if require('ridge.plan').is(f) and select('#', ...) == 0 then
    return require('ridge.plan_why').why(f)
  end
  return require('ridge.choices').why(f, ...)
end

--- Let products and convolutions take their standard paths again; plans keep those that they
--- were made with.
-- >> ridge.backend.forget_choices()
function M.forget_choices() require('ridge.choices').forget() end

--- Put in force what `now` said, in this process or another one: how a fresh process comes to
--- measure what its parent would.
---@param setting table as `now` gives it; other names in it are left alone
-- >> ridge.backend.apply(ridge.backend.now())
function M.apply(setting)
  if type(setting) ~= 'table' then
    blame.raise('backend.apply: what backend.now() gave is expected, got ' .. blame.show(setting))
  end
  if setting.threads then M.set_threads(setting.threads) end
  if setting.isa then M.set_isa(setting.isa) end
  if setting.gemm then M.set_gemm(setting.gemm) end
  if setting.choices or has_choices() then require('ridge.choices').apply(setting.choices) end
  if setting.affinity then
    local cpus = {}
    for cpu in tostring(setting.affinity):gmatch '%d+' do cpus[#cpus + 1] = tonumber(cpu) end
    M.set_affinity(cpus)
  end
  local modes = C.rg_device_modes_now()
  for _, name in ipairs(MODES) do
    if setting[name] ~= nil then modes[name] = setting[name] and 1 or 0 end
  end
  if setting.autotune and setting.autotune_cudnn then modes.autotune = 2 end
  for name, value in pairs(setting) do
    local device, what = tostring(name):match '^(%l+:%d+) ([%a_]+)$'
    local number = device and dtype.device(device, 'backend.apply')
    if what == 'memory_limit' then call.check(C.rg_memory_set_limit(number, value)) end
    if what == 'streams' then place.set_streams(number, value) end
  end
  call.refit()
  place.set_default(dtype.device(setting.device, 'backend.apply'))
end

--- Facts of the machine: cpu, isa, sockets, cores, threads, l1d, l2, l3, ram (bytes), amx_bf16.
---@return table
-- >> ridge.backend.machine().cpu
function M.machine()
  local f = C.rg_machine_facts()
  return {
    cpu = ffi.string(f.cpu), isa = ffi.string(f.isa), sockets = f.n_sockets, cores = f.n_cores,
    threads = f.n_threads, l1d = tonumber(f.l1d_bytes), l2 = tonumber(f.l2_bytes),
    l3 = tonumber(f.l3_bytes), ram = tonumber(f.ram_bytes), amx_bf16 = f.has_amx_bf16 == 1,
  }
end

--- The device line of F1: name and memory in GB with one decimal.
---@return string
function M.describe()
  local m = M.machine()
  return ('cpu: %s, %d threads of %d, %.1f GB, %s'):format(m.cpu, C.rg_threads(), m.threads,
    m.ram / 1024 ^ 3, m.isa)
end

--- Loaded when they are used: they keep rows in a results database.
return late.namespace(M, { save_choices = { 'ridge.sweep.choices', 'save' },
  load_choices = { 'ridge.sweep.choices', 'load' },
  probe = { 'ridge.probe', 'probe' } }, 'ridge.backend')
