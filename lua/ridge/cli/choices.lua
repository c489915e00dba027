-- SPDX-License-Identifier: MIT
--- `ridge choices`: which paths were measured to be the fastest, as they are stored.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'the paths of products and convolutions that ridge autotune found here'
M.usage = 'ridge choices [--all] [--db FILE] [--as table|csv|json|jsonl|md] [-o FILE]'

local SPEC = {
  about = [[
One line a product or convolution, the newest of each: the path that is taken, the one that would
be without it, how many times as fast it was (with the 95 % interval), its median time, when it was
measured.
Sweeps that use this database take what is listed; --all has other machines and versions too, which
they do not take.

    ridge choices
    ridge choices --all --as csv -o choices.csv]],
  { 'all', false, 'of all machines and all versions of ridge and its libraries' },
  { 'o', '', 'file to write; standard output when left out, or -', short = 'o' },
  stored.AS,
  stored.DB,
}

local function is_time(x) return type(x) == 'number' and x > 0 and x < math.huge end

-- How many times as fast as the standard path, from a row's times; nothing where they say nothing.
local function gain_of(row, times)
  local t = type(times) == 'table' and times[row.path]
  if type(t) ~= 'table' then return nil end
  local ns = is_time(t.ns) and t.ns or nil
  local known = is_time(t.ratio) and is_time(t.ratio_lo) and is_time(t.ratio_hi)
  if row.path == row.standard or not known then return ns end
  return ns, 1 / t.ratio, 1 / t.ratio_hi, 1 / t.ratio_lo
end

local YEAR_3000 = 3.25e16 -- microseconds

local TITLES = { 'operation', 'problem', 'path', 'standard', 'gain', 'gain_lo', 'gain_hi', 'ns',
  'rounds', 'at' }

local function lines_of(rows, opt)
  local found = { titles = { unpack(TITLES) }, lines = {} }
  if opt.all then
    found.titles[#TITLES + 1], found.titles[#TITLES + 2] = 'machine', 'versions'
  end
  for i, row in ipairs(rows) do
    local ns, gain, lo, hi = gain_of(row, row.times())
    local at = row.at
    if opt.as == 'table' or opt.as == 'md' then -- for eyes
      at = at > 0 and at < YEAR_3000 and os.date('%Y-%m-%d %H:%M', at / 1e6) or ''
    end
    found.lines[i] = { plain.line(row.operation), plain.line(row.problem), plain.line(row.path),
      plain.line(row.standard), gain, lo, hi, ns, row.rounds, at,
      opt.all and plain.line(row.cpu) or nil, opt.all and plain.line(row.versions) or nil }
  end
  return found
end

--- Print the list.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('choices', SPEC, argv, 'read', function(opt, _, st)
    local id, versions
    if not opt.all then
      id = st:find_machine(require('ridge.sweep.lab').facts().machine) or 0
      versions = require('ridge.choices').versions()
    end
    local found = lines_of(require('ridge.store.choices').list(st, id, versions), opt)
    stored.show(found, opt)
    if #found.lines == 0 then
      plain.note('nothing is stored of ', opt.all and 'any machine' or 'this machine',
        '; ridge autotune RECIPE measures it\n')
    end
  end)
end

return M
