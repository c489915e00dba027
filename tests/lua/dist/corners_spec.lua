-- SPDX-License-Identifier: MIT
--- Gradients of ranks' nets in unusual states: a branch that one rank alone takes, parameters that
--- are frozen and thawed, several passes, types, ties, what is added later.

local ranks = require 'tests.lua.dist.ranks'

describe('gradients of ranks', function()
  ranks.several({ it = it, pending = pending }, 'are those of the whole batch in any state',
    function()
      for n = 2, 3 do
        local text, status = ranks.launch(n, 'tests/lua/dist/corners_child.lua')
        assert.equal(0, status, text)
        for _, name in ipairs { 'branch0', 'branch1', 'frozen', 'passes', 'mixed', 'tied', 'kept',
          'unkept', 'again1', 'again2', 'again3' } do
          assert.equal(n, ranks.lines(text, ('%%] %s near true$'):format(name)), text)
        end
        for i, name in ipairs { 'weight', 'bias', 'weight' } do
          assert.equal(n, ranks.lines(text, ('added%d false .*: dist.DataParallel: parameter %s of '
            .. 'nn.Linear is none that it averages'):format(i, name)), text)
        end
        local sum = text:match 'all true (%S+)'
        assert.equal(2 * n, ranks.lines(text, '%] all true ' .. sum:gsub('%.', '%%.')), text)
      end
    end)
end)
