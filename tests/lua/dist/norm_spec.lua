-- SPDX-License-Identifier: MIT
--- Batch normalisation by the mean and variance of the rows of all ranks: beside one rank on the
--- whole batch, forward and back. Skipped where MPI is not.

local ranks = require 'tests.lua.dist.ranks'

local CASES = { 'rows', 'images', 'last', 'series', 'empty', 'ignored', 'f64', 'far',
  'bf16', 'f16' }

describe('batch normalisation over ranks', function()
  for _, n in ipairs { 2, 3 } do
    ranks.several({ it = it, pending = pending }, ('is that of one on the whole batch, of %d')
      :format(n), function()
      local text, status = ranks.launch(n, 'tests/lua/dist/norm_child.lua')
      assert.equal(0, status, text)
      assert.equal(0, ranks.lines(text, '%] off'), text)
      for _, name in ipairs(CASES) do
        assert.equal(n, ranks.lines(text, '%] ' .. name .. ' true'), text)
      end
      for _, name in ipairs { 'alone', 'again' } do
        assert.equal(n, ranks.lines(text, '%] ' .. name .. ' true'), text)
      end
    end)
  end
end)
