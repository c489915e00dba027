-- SPDX-License-Identifier: MIT
-- An OpenBLAS that does not know the processor runs kernels of SSE3: no product is expected to be
-- fast by it then, and what it alone computes is right all the same.

-- Prints the path of a narrow product of f32, and of one of f64, and what they are.
local CHILD = [[
local ridge, ring = require "ridge", require "ridge.ring"
local a, b = ridge.ones(64, 128), ridge.ones(128, 10)
local reader = ring.open("op", 64)
local y, z = a:matmul(b), a:to "f64":matmul(b:to "f64")
local paths = {}
for e in reader:each() do if e.name == "matmul" then paths[#paths + 1] = e.path end end
print(table.concat(paths, " "), y:min():item(), y:max():item(), z:min():item(), z:max():item())
]]

-- The words that it prints where OpenBLAS is told what the processor is.
local function told(core)
  local pipe = assert(io.popen(("OPENBLAS_CORETYPE=%s RIDGE_LUA=lua build/ridge -e '%s'"):format(
    core, CHILD)))
  local words = {}
  for word in pipe:read '*a':gmatch '%S+' do words[#words + 1] = word end
  pipe:close()
  return words
end

local function has_avx2()
  local file = io.open '/proc/cpuinfo'
  local text = file and file:read '*a' or ''
  if file then file:close() end
  return text:find ' avx2 ' ~= nil
end

it('no product goes to an OpenBLAS that is older than the processor, but for f64', function()
  if not has_avx2() then return pending 'a processor without AVX2' end
  local new, old = told 'Haswell', told 'Prescott'
  assert.same({ 'openblas', 'openblas', '128', '128', '128', '128' }, new)
  assert.are_not.equal('openblas', old[1])
  old[1] = 'openblas'
  assert.same(new, old)
end)
