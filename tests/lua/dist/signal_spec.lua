-- SPDX-License-Identifier: MIT
--- One rank alone is told to stop (kill -INT): it ends at its next collective with status 130, and
--- its launcher ends the others; where the script or a Trainer looks at ridge.stopping(), that
--- decides instead.

local ranks = require 'tests.lua.dist.ranks'

local CHILD = 'tests/lua/dist/signal_child.lua'

local function several(name, f) ranks.several({ it = it, pending = pending }, name, f) end

describe('one rank that is told to stop', function()
  for how, at in pairs { plain = 'dist.all_reduce', backward = 'dist.barrier',
    behind = 'dist.all_reduce' } do
    several('ends at its next collective, and the others with it: ' .. how, function()
      local text, status = ranks.launch(3, CHILD, how)
      assert.equal(130, status, text)
      assert.is_true(ranks.lines(text, '%] step 2$') > 0, text)
      assert.equal(0, ranks.lines(text, '%] step 3$'), text)
      assert.matches('%[2%] error: ' .. at .. ': interrupted: this rank was told to stop, and its '
        .. 'script does not look at ridge.stopping%(%)\n', text)
      assert.matches('\ninterrupted: all ranks have ended\n', text)
      assert.equal(1, ranks.lines(text, '%] error: '), text)
      assert.equal(0, ranks.left(CHILD .. ' ' .. how))
    end)
  end

  several('ends its first epoch where a Trainer looks for it', function()
    local text, status = ranks.launch(3, CHILD, 'first')
    assert.equal(130, status, text)
    assert.equal(3, ranks.lines(text, '%] ended interrupt 1 4$'), text)
    assert.equal(0, ranks.lines(text, '%] error: '), text)
  end)

  several('is not started again', function()
    local text, status = ranks.output(('./ridge launch -n 2 --restarts 2 --wait 0.01 %s behind')
      :format(CHILD))
    assert.equal(130, status, text)
    assert.is_true(ranks.lines(text, '%] step 1$') <= 2, text)
  end)

  several('goes on where its script looks at ridge.stopping()', function()
    local text, status = ranks.launch(3, CHILD, 'asks')
    assert.equal(130, status, text)
    assert.equal(3, ranks.lines(text, '%] saved at step 3$'), text)
    assert.equal(3, ranks.lines(text, '%] behind$'), text)
    assert.equal(0, ranks.lines(text, '%] error: '), text)
  end)
end)
