-- SPDX-License-Identifier: MIT
--- `ridge note`: what people know of a sweep that was not measured.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = "a note on a sweep: ridge note widths 'new BIOS'"
M.usage = "ridge note SWEEP ['TEXT'] [--db FILE]"

local SPEC = {
  about = [[
Adds a dated note to a sweep; without a text the notes on it are listed. Notes go with the file,
into merged ones and reports; ridge sweeps shows the newest one.

    ridge note widths 'new BIOS'
    ridge note widths]],
  rest = "SWEEP ['TEXT']", most = 2,
  stored.AS,
  stored.DB,
}

--- Add a note, or list them.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('note', SPEC, argv, nil, function(opt, rest)
    if not rest[1] then
      return stored.fail('note', 'a sweep is missing; ridge sweeps lists them')
    end
    local store, notes = require 'ridge.store', require 'ridge.store.notes'
    local query = require 'ridge.store.query'
    local path = opt.db ~= '' and opt.db or store.default_path()
    if rest[2] then
      store.with(path, 'read', function(st) query.sweep(st, rest[1]) end) -- writing would make one
      local added = store.with(path, 'write', function(st)
        return notes.add(st, query.sweep(st, rest[1]), rest[2])
      end)
      if added then return 0 end
      return stored.fail('note', 'the text is empty, or longer than 10000 bytes')
    end
    store.with(path, 'read', function(st)
      local found = { titles = { 'date', 'note' }, lines = {} }
      for i, note in ipairs(notes.of(st, query.sweep(st, rest[1]))) do
        found.lines[i] = { os.date('%Y-%m-%d %H:%M', note.at / 1e6), note.text }
      end
      if #found.lines == 0 and opt.as == 'table' then
        plain.note('no notes on ', rest[1], '\n')
      else
        stored.show(found, opt)
      end
    end)
  end)
end

return M
