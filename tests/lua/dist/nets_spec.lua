-- SPDX-License-Identifier: MIT
--- Nets of ranks that are called in unusual ways, several of them in one pass, and ranks that end
--- without the others. Skipped where MPI is not.

local ranks = require 'tests.lua.dist.ranks'

local CHILD = 'tests/lua/dist/nets_child.lua'

local function several(name, f) ranks.several({ it = it, pending = pending }, name, f) end

describe('nets of ranks', function()
  several('weigh gradients by the rows that were recorded', function()
    local text, status = ranks.launch(3, CHILD, 'rows')
    assert.equal(0, status, text)
    for _, line in ipairs { 'eval true', 'eval behind other rows true', 'tables true',
      'between true', 'by itself false .*the module was called by itself', 'behind that true' } do
      assert.equal(3, ranks.lines(text, '%] ' .. line), line .. '\n' .. text)
    end
  end)

  several('are averaged in one order, each parameter by its last net', function()
    local text, status = ranks.launch(3, CHILD, 'several')
    assert.equal(0, status, text)
    for _, line in ipairs { 'both true', 'newer true',
      'older false .*a later ridge.dist.DataParallel has parameters of this one',
      'inside false .*a dist.DataParallel is in the module', 'trainers true', 'norms true',
      'last 2 has other numbers on rank 2 than on rank 0' } do
      assert.equal(3, ranks.lines(text, '%] ' .. line), line .. '\n' .. text)
    end
    for _, line in ipairs { 'a batch of 90 is larger than the 20 rows', 'nn.SKLinear: 4 terms',
      'nn.SKConv2d: 2 T R = 32 stores more', 'weight was replaced' } do
      assert.equal(1, ranks.lines(text, line), line .. '\n' .. text)
    end
  end)

  several('are not waited for where a rank ends in front of dist.init', function()
    local text, status = ranks.output(('timeout -s KILL 600 ./ridge launch -n 3 %s absent'):format(
      CHILD))
    assert.equal(5, status, text)
    assert.matches('waited in dist.init in vain for rank 1, which ended without it', text)
    assert.equal(0, ranks.left(CHILD .. ' absent'))
  end)

  several('are not waited for either where mpirun itself has started them', function()
    local text, status = ranks.output(('timeout -s KILL 600 mpirun -n 3 --oversubscribe '
      .. '%s ./ridge %s elsewhere'):format(ranks.output 'id -u' == '0\n'
      and '--allow-run-as-root' or '', CHILD))
    assert.equal(3, status, text)
    for _, said in ipairs { 'the ranks that were started have not all come within 1 s: one has '
      .. 'ended without the others, or does something else', 'this process has waited in vain for '
      .. 'the others, and cannot join them any more' } do
      assert.matches('waited\t[^\n]*dist.init: ' .. said .. '\n', text)
    end
    assert.equal(0, ranks.left(CHILD .. ' elsewhere'))
  end)

  several('that waited in vain are named where scripts go on', function()
    local text, status = ranks.launch(3, CHILD, 'caught')
    assert.equal(5, status, text)
    assert.matches('ranks 0 and 1 waited in vain for rank 2, which did not come', text)
  end)
end)
