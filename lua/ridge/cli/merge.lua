-- SPDX-License-Identifier: MIT
--- `ridge merge`: the rows of several databases in one.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'the rows of several databases in one: ridge merge all.db a.db b.db'
M.usage = 'ridge merge INTO.db FROM.db ...'

local SPEC = {
  about = [[
Takes all rows of the others into the first, which is made when it is not there. The same points of
the same sweep unite, all their tries survive; merging twice changes nothing. Each file is taken
whole or not at all.

    ridge merge all.db shard1.db shard2.db shard3.db shard4.db]],
  rest = 'INTO FROM ...',
}

-- Sweeps that have points of unlike machines now.
local function note_unlike(st)
  local unlike = require 'ridge.sweep.unlike'
  for _, sweep in ipairs(st.db:look '/* sweeps */ SELECT id, name FROM main.sweep ORDER BY id') do
    local kinds = unlike.kinds(st, { sweep })
    if #kinds > 0 then
      plain.print(('%s has points of unlike machines: %s; %s\n'):format(plain.line(sweep.name),
        unlike.text(kinds), require('ridge.sweep.anchors').text(st, { sweep }, kinds)))
    end
  end
end

--- Merge.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('merge', SPEC, argv, nil, function(_, rest)
    if #rest < 2 then return stored.fail('merge', 'two databases at least: INTO and FROM') end
    local store, merge = require 'ridge.store', require 'ridge.store.merge'
    -- what is wrong with a source is said before anything is made
    for i = 2, #rest do store.open(rest[i], 'read'):close() end
    local st = store.open(rest[1], 'write')
    local ok, err = pcall(function()
      for i = 2, #rest do
        local parts = {}
        local taken = merge.take(st, rest[i])
        for _, c in ipairs(taken) do
          if c.n > 0 then parts[#parts + 1] = ('%d %s'):format(c.n, c.name) end
        end
        plain.print(('%s: %s\n'):format(rest[i],
          #parts > 0 and table.concat(parts, ', ') or 'nothing new'))
        for _, note in ipairs(taken.notes) do plain.print(('%s: %s\n'):format(rest[i], note)) end
      end
    end)
    if ok then
      note_unlike(st)
      require('ridge.store.pack').try(st)
    end
    st:close()
    if not ok then error(err, 0) end
  end)
end

return M
