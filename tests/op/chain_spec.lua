-- SPDX-License-Identifier: MIT
-- chain_spec: elementwise functions that a plan joins into one pass, with operands that lie as
-- packs of eight like it, and not.  Beside the operations, so that the sanitizers and the orders of
-- the simulated GPU see the one kernel that no call of an operation launches by itself.

local ffi = require 'ffi'

ffi.cdef 'int setenv(const char *name, const char *value, int overwrite);'
ffi.C.setenv('RIDGE_NVRTC', 'none', 1) -- what is compiled at run time has no sanitizer
local ridge = require 'ridge'

local DEVICE = os.getenv 'RIDGE_TEST_DEVICE' == '1' and 'sim:0' or 'cpu'

-- n elements, the first of them `ahead` elements behind where memory begins.
local function placed(n, ahead, dtype)
  return (ridge.randn(n + ahead):to(dtype):to(DEVICE)[{ { ahead + 1, n + ahead } }])
end

local function bits(x) return x:to('cpu'):to('f64'):tolist() end

-- A chain that is captured gives what its functions give one by one.
local function compare(chain, ...)
  local inputs, before, copies = { ... }, {}, {}
  for i, x in ipairs(inputs) do before[i], copies[i] = x:clone(), x:clone() end
  local want = bits(chain(unpack(copies)))
  local plan = ridge.capture(chain, unpack(inputs))
  for i, x in ipairs(inputs) do x:copy_(before[i]) end
  if DEVICE ~= 'cpu' then assert.equal('fused', table.concat(plan:facts().steps, ' ')) end
  assert.same(want, bits((plan:run())))
end

local function in_place(x, y, one) return x:add_(y):mul_(one):add_(0.25) end
local function apart(x, y, one) return ((x + y) * one):relu() end

describe('a chain', function()
  for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
    for name, chain in pairs { ['in place'] = in_place, ['into a new tensor'] = apart } do
      it(('%s gives what its functions give: %s'):format(name, dtype), function()
        ridge.seed(3)
        for _, n in ipairs { 5, 16, 70 } do
          for ahead = 0, 1 do
            for other = 0, 1 do
              compare(chain, placed(n, ahead, dtype), placed(n, other, dtype),
                placed(1, ahead, dtype))
            end
          end
        end
      end)
    end
  end
end)
