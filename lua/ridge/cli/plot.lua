-- SPDX-License-Identifier: MIT
--- `ridge plot`: pictures of a stored sweep.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a picture of a sweep: ridge plot map widths -x width -y batch -z fwd'
M.usage = 'ridge plot map|landscape SWEEP [-x COLUMN] [-y COLUMN] [-z COLUMN] [-o FILE]'

local SPEC = {
  about = [[
map        one cell for each measured point, coloured by a phase or metric; --ratio against dense
landscape  the 2x2 figure of time and memory over parameters, terms and rank, of one type

Only rows are drawn, and the picture carries them: `ridge replot` draws it again.

    ridge plot map widths -x width -y batch -z fwd.gflops -o map.png]],
  rest = 'map|landscape SWEEP',
  { 'x', '', 'column across', short = 'x' },
  { 'y', '', 'column upwards', short = 'y' },
  { 'z', 'fwd', 'column that colours', short = 'z' },
  { 'facet', 'dtype', 'column with one panel a value' },
  { 'ratio', false, 'colour is the speed-up over dense' },
  { 'dtype', '', 'landscape: the element type' },
  { 'theme', 'light', 'look', choices = { 'light', 'dark' } },
  { 'o', '', 'PNG file; the sweep and kind when left out', short = 'o' },
  stored.DB,
}

local KINDS = { 'map', 'landscape' }

local function column(text) return (text:gsub('%.', '_')) end

-- What rows are drawn across and upwards when nobody says: parameters with several numbers.
local function axes_of(rows, params, opt)
  local names = {}
  for _, name in ipairs(params) do
    local seen, n = {}, 0
    for _, row in ipairs(rows) do
      local v = row[name]
      if type(v) == 'number' and not seen[v] then
        seen[v] = true
        n = n + 1
      end
    end
    if n > 1 then names[#names + 1] = name end
  end
  local x = opt.x ~= '' and column(opt.x) or names[1]
  local y = opt.y ~= '' and column(opt.y) or names[1] == x and names[2] or names[1]
  if not x or not y or x == y then
    require('ridge.blame').raise('a map needs two parameters with several numbers; name them with '
      .. '-x and -y; parameters: ' .. table.concat(params, ', '), 'EARG')
  end
  return x, y
end

local function figure(kind, st, sweep, opt)
  local plot, results = require 'ridge.plot', require 'ridge.store.results'
  local rows = results.rows(st, sweep.id)
  local about = { sweep = sweep.name, database = st.path:match '[^/]+$', query = sweep.name,
    version = require('ridge').version(), device = st.db:value([[/* device of a sweep */
      SELECT m.cpu FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
      JOIN main.env e ON e.id = a.env_id JOIN main.machine m ON m.id = e.machine_id
      WHERE t.sweep_id = ? LIMIT 1]], sweep.id) }
  if kind == 'landscape' then
    about.dtype = opt.dtype ~= '' and opt.dtype or nil
    return plot.landscape(rows, about)
  end
  about.x, about.y = axes_of(rows, results.params(st, sweep.id), opt)
  about.z, about.facet, about.ratio = column(opt.z), opt.facet, opt.ratio
  local direction = results.directions(st, sweep.id)[about.z]
  about.better = direction == 1 and 'higher' or direction == -1 and 'lower' or nil
  return plot.map(rows, about)
end

--- Draw.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('plot', SPEC, argv, 'read', function(opt, rest, st)
    local kind = rest[1]
    if kind ~= 'map' and kind ~= 'landscape' then
      return stored.fail('plot', kind and ("'%s' is neither map nor landscape%s"):format(kind,
        require('ridge.near').hint(kind, KINDS)) or 'map or landscape is missing')
    end
    if not rest[2] then
      return stored.fail('plot', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweep = require('ridge.store.query').sweep(st, rest[2])
    local path = opt.o ~= '' and opt.o or ('%s-%s.png'):format(sweep.name, kind)
    figure(kind, st, sweep, opt):save(path, { theme = opt.theme })
    io.stdout:write(path, '\n')
  end)
end

return M
