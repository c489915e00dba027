-- SPDX-License-Identifier: MIT
-- An OpenBLAS that does not know the processor runs kernels of SSE3: no product is expected to be
-- fast by it then, and what it alone computes is right all the same.

-- Prints the paths of products of f32 of several shapes, one of which goes to OpenBLAS on
-- processors of each kind; then that of one of f64, and what they are.
local CHILD = [[
local ridge, ring = require "ridge", require "ridge.ring"
local reader = ring.open("op", 64)
local least, most = 1, 1 -- over what it is
local function product(m, k, n, dtype)
  local y = ridge.ones(m, k, { dtype = dtype }):matmul(ridge.ones(k, n, { dtype = dtype }))
  least, most = math.min(least, y:min():item() / k), math.max(most, y:max():item() / k)
end
product(64, 128, 10, "f32") product(1, 128, 10, "f32")
product(64, 64, 4, "f32") product(256, 512, 512, "f32")
product(64, 128, 10, "f64")
local paths = {}
for e in reader:each() do if e.name == "matmul" then paths[#paths + 1] = e.path end end
print(table.concat(paths, " "), least, most)
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
  local function of_openblas(words)
    local count = 0
    for i = 1, 4 do count = count + (words[i] == 'openblas' and 1 or 0) end
    return count
  end
  for _, words in ipairs { new, old } do
    assert.equal(7, #words, table.concat(words, ' '))
    assert.same({ 'openblas', '1', '1' }, { unpack(words, 5) })
  end
  assert.is_true(of_openblas(new) > 0)
  assert.equal(0, of_openblas(old))
end)
