-- SPDX-License-Identifier: MIT
-- Which calls of attention go to a cuDNN of a version, on the simulated GPU: before 9.16 its
-- gradients are wrong where the keys are no multiple of 128.
local SIMULATED = 'build/libridge_gpusim.so'

local function exists(path)
  local f = io.open(path)
  return f ~= nil and f:close()
end

local PROGRAM = [[
local ridge = require 'ridge'
local nn = ridge.nn
for _, keys in ipairs { 128, 130 } do
  local list = {}
  for i = 1, 3 do
    list[i] = ridge.randn(1, 1, i == 1 and 3 or keys, 8):to 'bf16':to 'sim:0':requires_grad_()
  end
  local function step() nn.attention(unpack(list)):sum():backward() end
  step() -- cuDNN plans what comes again
  for _, o in ipairs(ridge.profile(step).operations) do
    if o.op:find '^attention' then io.write(keys, ' ', o.op, ' ', o.path, '\n') end
  end
end]]

describe('attention by cuDNN', function()
  for version, back in pairs { [91400] = 'tensor cores', [91600] = 'cudnn' } do
    (exists(SIMULATED) and it or pending)('of version ' .. version, function()
      local pipe = io.popen(('RG_SIM_DNN_VERSION=%d RIDGE_CUDNN=simulated RIDGE_GPU=%s ./ridge -e '
        .. "'%s' 2>&1 | sort"):format(version, SIMULATED, (PROGRAM:gsub("'", "'\\''"))))
      local text = pipe:read '*a'
      pipe:close()
      assert.equal('128 attention cudnn\n128 attention_back cudnn\n130 attention cudnn\n' ..
        '130 attention_back ' .. back .. '\n', text)
    end)
  end
end)
