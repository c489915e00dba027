-- SPDX-License-Identifier: MIT
-- calls_spec: what the gradient of each operation computes, call by call, for each input that may
-- ask for one alone and for all of them: as approved.  A sum that nobody asks for, a tensor that is
-- kept for too long and a wrong count of what a call costs change no result, so that they show in
-- nothing else.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local approved = dofile 'tests/lua/approved.lua'
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

local SAMPLES = { f32 = 4, bf16 = 1 } -- of an operation, the first, the last, those in between
local MOST = 4000 -- elements of an input
local KINDS = 2 ^ C.RG_EVENT_OP + 2 ^ C.RG_EVENT_COPY + 2 ^ C.RG_EVENT_RANGE

tensors.check(C.rg_device_open(tensors.DEVICE))
local generator = ffi.new 'rg_generator *[1]'
tensors.check(C.rg_generator_new(1, generator))
local slot = ffi.new 'rg_tensor *[8]'

local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do x[i] = dtype == 'u8' and i % 200 or 1 + (i * 7 % 11) / 8 end
  return x
end

local function inputs_of(entry, sample, dtype)
  local list = {}
  for i, shape in ipairs(sample) do
    list[i] = shape and input(shape, entry.inputs and entry.inputs[i] or dtype)
  end
  if entry.prepare then entry.prepare(list, sample) end
  return list
end

local function arguments(sample)
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  return args
end

-- The calls of the core while something is done, a line each.
local function heard(list, what)
  local reader, at = ffi.new 'int32_t[1]', ffi.new 'int64_t[1]'
  local event = ffi.new 'rg_happening'
  local before = tonumber(C.rg_memory_of(0).live_bytes)
  tensors.check(C.rg_reader_open(KINDS, C.RG_READ_FIRST, 4096, reader))
  what()
  while true do
    tensors.check(C.rg_reader_next(reader[0], at, event))
    if event.name == nil then break end
    list[#list + 1] = ('    %s %s: %g flops, %g bytes; %d'):format(ffi.string(event.name),
      ffi.string(C.rg_shapes_text(event.shapes)), event.flops, event.bytes,
      tonumber(event.live_bytes) - before)
  end
  C.rg_reader_close(reader[0])
end

-- What the call keeps for its gradient.
local function saved(y)
  local most = 16
  local list, count, text = ffi.new('rg_saved[?]', most), ffi.new 'int64_t[1]', {}
  tensors.check(C.rg_grad_saved(y, list, most, count))
  for i = 0, math.min(most, tonumber(count[0])) - 1 do
    text[#text + 1] = ('%s %d %s %d'):format(ffi.string(list[i].op), list[i].index,
      tensors.NAMES[list[i].dtype], tonumber(list[i].bytes))
  end
  table.sort(text)
  return table.concat(text, ', ')
end

-- wanted: which inputs ask for a gradient; k: of which result.
local function told(out, entry, sample, dtype, wanted, k)
  local t = {}
  for i, x in ipairs(inputs_of(entry, sample, dtype)) do
    t[i] = x and tensors.LAYOUTS[1].make(x)
    if x and wanted[i] then tensors.check(C.rg_require_grad(t[i], 1)) end
  end
  for i = 0, 7 do slot[i] = nil end
  heard(out, function() tensors.check(entry.call(C, t, arguments(sample), slot)) end)
  for i = 0, entry.target and -1 or (entry.n_out or 1) - 1 do tensors.hold(slot[i]) end
  local y = slot[(k or 1) - 1]
  if y == nil then return tensors.release_all() end
  out[#out + 1] = '   keeps ' .. saved(y)
  if C.rg_requires_grad(y) == 1 then
    local shape = {}
    for i = 1, y._ndim do shape[i] = tonumber(y._shape[i - 1]) end
    local dy = tensors.LAYOUTS[1].make(input(shape, tensors.NAMES[y._dtype]))
    heard(out, function() tensors.check(C.rg_backward(y, dy, 0)) end)
  end
  tensors.release_all()
end

local function takes(entry, dtype)
  for _, candidate in ipairs(entry.dtypes) do
    if candidate == dtype then return true end
  end
  return false
end

local function samples_of(entry, dtype)
  local list = {}
  for _, sample in ipairs(entry.samples) do
    local fits = not (sample.except and sample.except[dtype]) and (sample.only or dtype) == dtype
    for _, shape in ipairs(sample) do
      local count = shape and reference.count(shape) or 1
      fits = fits and count > 1 and count <= MOST
    end
    if fits then list[#list + 1] = sample end
  end
  local some, most = {}, math.min(SAMPLES[dtype], #list)
  for i = 1, most do
    some[i] = list[most == 1 and math.ceil(#list / 2)
      or 1 + math.floor((i - 1) * (#list - 1) / (most - 1) + 0.5)]
  end
  return some
end

local function shapes_text(sample)
  local list = {}
  for i, shape in ipairs(sample) do
    list[i] = shape and '[' .. table.concat(shape, ',') .. ']' or '-'
  end
  return table.concat(list, ' ')
end

-- What an operation without a gradient computes: what it costs.
local function tell_call(out, name, entry, dtype)
  for _, sample in ipairs(samples_of(entry, dtype)) do
    out[#out + 1] = ('%s %s %s'):format(name, dtype, shapes_text(sample))
    told(out, entry, sample, dtype, {})
  end
end

local function tell(out, name, entry, dtype)
  for number, sample in ipairs(samples_of(entry, dtype)) do
    local floats, n = {}, 0
    for i, shape in ipairs(sample) do
      local kind = entry.inputs and entry.inputs[i] or dtype
      floats[i] = shape and kind == dtype or nil
      n = n + (floats[i] and 1 or 0)
    end
    out[#out + 1] = ('%s %s %s'):format(name, dtype, shapes_text(sample))
    for i = 1, #sample do
      if floats[i] and n <= 8 then
        out[#out + 1] = '  of input ' .. i
        told(out, entry, sample, dtype, { [i] = true })
      end
    end
    if n > 1 then
      out[#out + 1] = '  of all'
      told(out, entry, sample, dtype, floats)
    end
    for k = 2, entry.n_out or 1 do
      out[#out + 1] = '  of all, from result ' .. k
      told(out, entry, sample, dtype, floats, k)
    end
    if number == 1 and dtype == 'f32' then
      out[#out + 1] = '  of all under autocast'
      C.rg_autocast_set(tensors.CODES.bf16)
      told(out, entry, sample, dtype, floats)
      C.rg_autocast_set(-1)
    end
  end
end

describe('a gradient', function()
  after_each(function()
    C.rg_autocast_set(-1)
    tensors.release_all()
  end)

  it('computes what is asked of it, and keeps it no longer than that', function()
    if tensors.DEVICE ~= 0 then return end -- devices have kernels that the CPU has not
    local facts, names, has_grad = ffi.new 'rg_op_facts', {}, {}
    for i = 0, C.rg_op_count() - 1 do
      tensors.check(C.rg_op_facts_of(i, facts))
      local name = ffi.string(facts.name)
      if cases[name] then names[#names + 1] = name end
      has_grad[name] = facts.has_grad == 1 and not (cases[name] or {}).target
    end
    table.sort(names)
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local out = {}
      for _, name in ipairs(names) do
        local how = has_grad[name] and tell or tell_call
        if takes(cases[name], dtype) then how(out, name, cases[name], dtype) end
      end
      approved.check('op/calls_' .. dtype, table.concat(out, '\n'))
    end
  end)
end)
