-- SPDX-License-Identifier: MIT
-- refused_spec: what each operation says of the calls it refuses, to the letter: which condition
-- refused a call, and which sizes it speaks of, show in nothing else.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local approved = dofile 'tests/lua/approved.lua'
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

tensors.check(C.rg_device_open(tensors.DEVICE))
local generator = ffi.new 'rg_generator *[1]'
tensors.check(C.rg_generator_new(1, generator))

-- Small numbers, the same in each call.
local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do x[i] = dtype == 'bool' and i % 2 or i % 5 end
  return tensors.LAYOUTS[1].make(x)
end

-- What a call that is to be refused says; nothing where a device finds out later.
local function said(entry, bad)
  local out = ffi.new('rg_tensor *[?]', entry.n_out or 1)
  local args, t = { seed = 5, offset = 0, generator = generator[0] }, {}
  for k, v in pairs(bad[3] or {}) do args[k] = v end
  for i, shape in ipairs(bad[1]) do t[i] = input(shape, bad[2][i]) end
  local status = entry.call(C, t, args, out)
  local text = status == 0 and 'NOT REFUSED' or tensors.failure(status)
  tensors.release_all()
  return text
end

describe('an operation', function()
  it('says why it refuses a call', function()
    if tensors.DEVICE ~= 0 then return end -- of a device, op_spec
    local names, list = {}, {}
    for name in pairs(cases) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      for _, bad in ipairs(cases[name].bad) do list[#list + 1] = said(cases[name], bad) end
    end
    approved.check('op/refused', table.concat(list, '\n'))
  end)
end)
