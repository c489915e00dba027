-- SPDX-License-Identifier: MIT
-- By which path rows of each length go on a GPU, as a profile says it: held in registers, kept in
-- shared memory, or read again. On the simulated GPU, where it was built.
local program = require 'tests.lua.repl.program'

local SIMULATED = 'build/libridge_gpusim.so'

-- Prints a line for each length: it, and the path of each operation.
local CODE = [[
  local ridge = require 'ridge'
  local OPS = { 'softmax', 'softmax_back', 'layer_norm', 'layer_norm_back' }
  for _, n in ipairs { 64, 4096, 4100, 8192, 8196, 20000, 57000, 70000, 4097 } do
    local x = ridge.randn(2, n):to 'sim':requires_grad_()
    local norm = ridge.nn.LayerNorm(n):to 'sim':train()
    local p = ridge.profile(function()
      x:softmax():sum():backward()
      norm(x):sum():backward()
    end, { lines = false })
    local path = {}
    for _, each in ipairs(p.operations) do path[each.op] = each.path end
    for i, op in ipairs(OPS) do path[i] = path[op] or 'nobody says' end
    print(n .. ': ' .. table.concat(path, ', '))
  end]]

-- Rows of f32: four and eight packs of four for each of 256 threads; one row, or two at once, of
-- the 227 KB of a block; 4097 elements are no packs.
local WANTED = [[
64: registers, registers, registers, registers
4096: registers, registers, registers, registers
4100: registers, shared memory, registers, shared memory
8192: registers, shared memory, registers, shared memory
8196: shared memory, shared memory, shared memory, shared memory
20000: shared memory, shared memory, shared memory, shared memory
57000: shared memory, again, shared memory, again
70000: again, again, again, again
4097: again, again, again, again
]]

describe('rows on a GPU', function()
  it('go by the path that their length asks for, and a profile names it', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    local status, out, err = program.run({ '-e', CODE }, { env = 'RIDGE_GPU=' .. SIMULATED })
    assert.equal(0, status, err)
    assert.equal(WANTED, out)
  end)
end)
