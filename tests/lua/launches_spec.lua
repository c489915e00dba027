-- SPDX-License-Identifier: MIT
-- launches_spec: which kernels an operation launches on the simulated GPU, over how many
-- blocks, and by which path: as approved.  Kernels go on until nothing is left, and a slower one
-- gives the same numbers, so that a launch that is too small and a path that is never taken show
-- in nothing else.

require 'jit.opt'.start('-sink') -- see tests/op/op_spec.lua

local ffi = require 'ffi'
local simulated = dofile 'tests/lua/simulated.lua'
local there = simulated.open()
for name, value in pairs { RIDGE_TEST_DEVICE = '1', RIDGE_CUDNN = 'none', XDG_CACHE_HOME = '' } do
  ffi.C.setenv(name, value, 1)
end
local all = dofile 'tests/op/cases.lua'
local approved = dofile 'tests/lua/approved.lua'
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

local SAMPLES, MOST = 3, 1200 -- of an operation; elements of an input
-- Beside those of the operation: scales with gaps, which are brought together by two blocks; one
-- column; whole tiles, which no block more is for.
local MORE = { matmul = { { { 256, 64 }, { 64, 128 } } },
  scaled_linear = {
    { { 200, 16 }, { 144, 16 }, { 200 }, { 144 }, false, lies = { [3] = 3, [4] = 3 } },
    { { 20, 32 }, { 1, 32 }, { 20 }, { 1 }, false } } }
local LARGER = 2100 -- elements of an operation on inputs of one shape, for more than one block
local LAYOUTS = { 1, 4 } -- side by side from the beginning of memory on, and behind one element

ffi.cdef 'size_t rgsim_launched(char *text, size_t room);'
local slot = ffi.new 'rg_tensor *[8]'
local generator = ffi.new 'rg_generator *[1]'
local room = 32768
local buffer = ffi.new('char[?]', room)

local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    x[i] = dtype == 'u8' and i % 200 or reference.convert(1 + (i * 7 % 11) / 8, dtype)
  end
  return x
end

-- The kernels since this was asked last: name, blocks, and threads where they are not 256.
local function launched(plugin)
  assert(plugin.rgsim_launched(buffer, room) < room)
  local list = {}
  for grid, block, name in ffi.string(buffer):gmatch '([^\t\n]*)\t([^\t\n]*)\t[^\t\n]*\t([^\n]*)' do
    name = name:gsub('%b()$', ''):gsub('^void ', '')
    list[#list + 1] = ('%s over %s%s'):format(name, grid:gsub(' 1 1$', ''):gsub(' 1$', ''),
      block == '256 1 1' and '' or ' of ' .. block:gsub(' 1 1$', ''))
  end
  return list
end

-- The path that the call of an operation itself took.
local function path_of(name, what)
  local reader, at = ffi.new 'int32_t[1]', ffi.new 'int64_t[1]'
  local event, path = ffi.new 'rg_happening', '?'
  tensors.check(C.rg_reader_open(2 ^ C.RG_EVENT_OP, C.RG_READ_FIRST, 256, reader))
  what()
  while true do
    tensors.check(C.rg_reader_next(reader[0], at, event))
    if event.name == nil then break end
    if ffi.string(event.name) == name then path = ffi.string(event.path) end
  end
  C.rg_reader_close(reader[0])
  return path
end

-- A sample whose inputs have all one shape, with a longer last axis.
local function larger(sample)
  local shape, grown = sample[1], {}
  if not shape or #shape == 0 or sample.lies then return end
  local wide = { unpack(shape) }
  wide[#wide] = math.ceil(LARGER / (reference.count(shape) / shape[#shape]))
  for k, v in pairs(sample) do grown[k] = v end
  for i, other in ipairs(sample) do
    if not other or table.concat(other, ',') ~= table.concat(shape, ',') then return end
    grown[i] = wide
  end
  return grown
end

local function samples_of(name, entry, dtype)
  local list, some = {}, {}
  for _, sample in ipairs(entry.samples) do
    local fits = not (sample.except and sample.except[dtype]) and (sample.only or dtype) == dtype
    for _, shape in ipairs(sample) do
      local count = shape and reference.count(shape) or 1
      fits = fits and count > 1 and count <= MOST
    end
    if fits then list[#list + 1] = sample end
  end
  local most = math.min(SAMPLES, #list)
  for i = 1, most do -- the first, the last, those in between
    some[i] = list[most == 1 and 1 or 1 + math.floor((i - 1) * (#list - 1) / (most - 1) + 0.5)]
  end
  for _, sample in ipairs(MORE[name] or {}) do some[#some + 1] = sample end
  for _, sample in ipairs(list) do
    local grown = larger(sample)
    if grown then
      some[#some + 1] = grown
      break
    end
  end
  return some
end

local function tell(plugin, out, name, entry, sample, dtype, layout)
  local inputs, t, shapes = {}, {}, {}
  for i, shape in ipairs(sample) do
    inputs[i] = shape and input(shape, entry.inputs and entry.inputs[i] or dtype)
    shapes[i] = shape and '[' .. table.concat(shape, ',') .. ']' or '-'
  end
  if entry.prepare then entry.prepare(inputs, sample) end
  for i, x in ipairs(inputs) do
    local how = tensors.LAYOUTS[(sample.lies or {})[i] or layout]
    t[i] = x and (how.fits(x.shape) and how or tensors.LAYOUTS[1]).make(x)
  end
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  for i = 0, 7 do slot[i] = nil end
  tensors.check(C.rg_device_wait(tensors.DEVICE))
  launched(plugin)
  local status
  local path = path_of(name, function() status = entry.call(C, t, args, slot) end)
  if status == 0 then
    for i = 0, entry.target and -1 or (entry.n_out or 1) - 1 do
      if slot[i] ~= nil then tensors.hold(slot[i]) end
    end
    out[#out + 1] = ('%s %s %s %s: %s; %s'):format(name, dtype, tensors.LAYOUTS[layout].name,
      table.concat(shapes, ' '), path, table.concat(launched(plugin), ', '))
  end
  tensors.release_all()
end

-- What the calls of some operations launch, a line each.
local function told(plugin, names, dtype)
  local out = {}
  for _, name in ipairs(names) do
    local takes = false
    for _, candidate in ipairs(cases[name].dtypes) do takes = takes or candidate == dtype end
    for _, sample in ipairs(takes and samples_of(name, cases[name], dtype) or {}) do
      for _, layout in ipairs(LAYOUTS) do
        tell(plugin, out, name, cases[name], sample, dtype, layout)
      end
    end
  end
  return table.concat(out, '\n')
end

describe('the kernels of an operation', function()
  for _, dtype in ipairs { 'f32', 'bf16', 'i64', 'i8', 'f8e4m3' } do
    it('are those that were approved: ' .. dtype, function()
      if not there then return pending 'no nvcc: the simulated GPU was not built' end
      local plugin = ffi.load 'build/libridge_gpusim.so'
      tensors.check(C.rg_device_open(tensors.DEVICE))
      tensors.check(C.rg_generator_new(1, generator))
      local facts, names = ffi.new 'rg_op_facts', {}
      for i = 0, C.rg_op_count() - 1 do
        tensors.check(C.rg_op_facts_of(i, facts))
        local name = ffi.string(facts.name)
        if cases[name] and C.rg_op_runs_on(i, tensors.DEVICE) == 1 then names[#names + 1] = name end
      end
      table.sort(names)
      approved.check('gpu/launches_' .. dtype, told(plugin, names, dtype))
    end)
  end

  it('are those that were approved: products without cublasLt', function()
    if not there then return pending 'no nvcc: the simulated GPU was not built' end
    local plugin = ffi.load 'build/libridge_gpusim.so'
    tensors.check(C.rg_device_open(tensors.DEVICE))
    tensors.check(C.rg_generator_new(1, generator))
    local modes, list = C.rg_device_modes_now(), {}
    modes.vendor = 0
    for i, dtype in ipairs { 'f32', 'bf16', 'f16', 'i8' } do
      list[i] = told(plugin, { 'linear', 'matmul', 'scaled_linear' }, dtype)
    end
    modes.vendor = 1
    approved.check('gpu/launches_own', table.concat(list, '\n'))
  end)
end)
