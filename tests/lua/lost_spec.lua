-- SPDX-License-Identifier: MIT
-- A kernel of the simulated GPU accesses memory that is not its own: from then on nothing runs
-- there, and every answer says so, by the name of the first error.
local SIMULATED = 'build/libridge_gpusim.so'

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function is_simulated()
  local file = io.open(SIMULATED)
  return file and file:close() ~= nil
end

local ERROR = 'an illegal memory access was encountered %(cudaErrorIllegalAddress%)'
local ASKED = { 'wait', 'add', 'large', 'pinned', 'to the device', 'product', 'another product',
  'conv2d', 'attention', 'workspace', 'sum', 'event', 'plan' }

describe('a device that is lost', function()
  local function answers(env)
    local found, text = {}, output(('XDG_CACHE_HOME= RIDGE_GPU=%s RG_SIM_FAULT=k_softmax %s '
      .. './ridge tests/lua/lost_child.lua'):format(SIMULATED, env))
    for name, code, message in text:gmatch '([^\t\n]+)\t([^\t\n]+)\t([^\n]+)' do
      found[name] = { code = code, message = message }
    end
    return found, text
  end

  for _, env in ipairs { '', 'RIDGE_CUDNN=simulated', 'RIDGE_NVRTC=simulated' } do
    it('answers everything with its first error ' .. env, function()
      if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
      local found, text = answers(env)
      assert.equal('EDEVICE', (found.loses or {}).code, text)
      assert.matches('^copy: ' .. ERROR .. ', of this call or one before it', found.loses.message)
      for _, name in ipairs(ASKED) do
        assert.equal('EDEVICE', (found[name] or {}).code, name .. '\n' .. text)
        assert.matches('the device was lost at copy: ' .. ERROR, found[name].message, name)
      end
      assert.matches('^lowrank_linear: ', found.workspace.message)
    end)
  end

  -- driver_types.h says of these that the process has to end; 900 stands for all others
  it('is so after each error that stays, and after no other', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    for _, number in ipairs { 214, 220, 226, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911,
      900 } do
      local found, text = answers('RG_SIM_FAULT_ERROR=' .. number)
      assert.equal('EDEVICE', (found.loses or {}).code, text)
      for _, name in ipairs { 'wait', 'add' } do
        assert.equal('EDEVICE', (found[name] or {}).code, name .. '\n' .. text)
        assert.equal(number ~= 900, found[name].message:find('lost at copy', 1, true) ~= nil,
          number .. ' ' .. text)
      end
    end
  end)

  it('names the operation whose kernel it was, where launches block', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local found, text = answers 'CUDA_LAUNCH_BLOCKING=1'
    assert.equal('EDEVICE', (found.loses or {}).code, text)
    assert.matches('^softmax: ' .. ERROR, found.loses.message)
    assert.matches('the device was lost at softmax: ' .. ERROR, found.large.message)
  end)
end)
