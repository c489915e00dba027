-- SPDX-License-Identifier: MIT
--- A page about one stored sweep: the answer, pictures, points, failures, what was wrong with the
--- machine, where and how it was measured, and the commands that make it again.
--
-- It is at most five megabytes: pictures and the table of all points are left out where they would
-- not fit, and the page says which, and the command that makes them.

local answer = require 'ridge.report.answer'
local canonical = require 'ridge.store.canonical'
local flags = require 'ridge.measure.flags'
local format = require 'ridge.store.format'
local html = require 'ridge.report.html'
local notes = require 'ridge.store.notes'
local picture = require 'ridge.sweep.picture'
local plain = require 'ridge.plain'
local query = require 'ridge.store.query'
local results = require 'ridge.store.results'
local schema = require 'ridge.store.schema'
local sources = require 'ridge.report.source'
local unit = require 'ridge.show.unit'

local M = {}

--- Bytes of a page at most.
M.MOST = 5 * 2 ^ 20

local PICTURES_MOST, CSV_MOST = 2.6 * 2 ^ 20, 1.4 * 2 ^ 20 -- of base64
local MORE = 2 ^ 20 -- what pictures get where there is no CSV
local REST = 0.9 * 2 ^ 20 -- what all but pictures, CSV and the table of points takes at most
local ROWS, FAILED, MESSAGE, SOURCE, NOTE = 200, 40, 400, 48 * 1024, 2000
local NAME, SENTENCE, NOTES = 80, 1000, 20
local KINDS = { 'map', 'slices', 'efficiency', 'roofline', 'effects', 'uncertainty' }
-- Where not all is drawn. Medians over a draw are others than those over all points, which the
-- answer has: effects are not drawn.
local OF_MANY = { 'map', 'uncertainty', 'efficiency', 'slices', 'roofline' }

local cut, shell = html.cut, html.shell

-- -- Pictures -------------------------------------------------------------------------------------

-- One figure, light and dark; nil and why where this sweep has nothing for it.
local function drawn(kind, st, sweep, rows)
  local ok, light, dark, figure = pcall(function()
    local made = picture.figure(kind, st, sweep, nil, nil, rows)
    return made:png { theme = 'light', scale = 1.5 }, made:png { theme = 'dark', scale = 1.5 }, made
  end)
  if ok then return light, dark, figure end
  if type(light) == 'table' and light.code == 'EINTR' then error(light, 0) end
  return nil, type(light) == 'table' and light.message or tostring(light)
end

-- Those that there are; the kinds that are too large, bytes, whether some show a draw, and where
-- none is drawn, why.
local function pictures(st, sweep, source, said, measured, most)
  local parts, left, bytes, some, reason = {}, {}, 0, false, nil
  local kinds = source.columns and OF_MANY or KINDS
  for _, kind in ipairs(measured > 0 and kinds or {}) do
    local rows, which = source:drawn(kind, said)
    local light, dark, figure = drawn(kind, st, sweep, rows)
    if light then
      local size = (#light + #dark) * 4 / 3
      if bytes + size > most then
        left[#left + 1] = kind
      else
        bytes = bytes + size
        local headline = cut(figure.finding or figure.title or kind, SENTENCE)
        parts[#parts + 1] = ('<figure><picture><source media="(prefers-color-scheme: dark)" '
          .. 'srcset="%s"><img src="%s" alt="%s" width="%d" height="%d"></picture>\n'
          .. '<figcaption>%s</figcaption></figure>'):format(html.data('image/png', dark),
          html.data('image/png', light), html.escape(headline), figure:width(), figure:height(),
          html.escape(('%s: %s%s'):format(kind, headline, which and (' (%s)'):format(
            cut(which, SENTENCE)) or '')))
        some = some or which ~= nil
      end
    elseif dark:find('must be finite', 1, true) then -- not that there is nothing of its kind
      reason = dark:gsub('^plot%.%w+: ', '')
    end
  end
  if some then left[#left + 1] = 'effects' end
  return parts, left, bytes, some, #parts == 0 and #left == 0 and reason or nil
end

-- -- Points ---------------------------------------------------------------------------------------

local function flag_words(text)
  local out = {}
  for name in (text or ''):gmatch '%S+' do
    local known = flags.describe(name:upper())
    out[#out + 1] = known and known.text or name
  end
  return table.concat(out, '; ')
end

local function number(v) return type(v) == 'number' and v or nil end

local function word(v)
  if type(v) == 'number' then return v == v and ('%.6g'):format(v) or 'nan' end
  return v ~= nil and cut(tostring(v), NAME) or nil
end

-- The points, best first: parameters, phases with intervals, metrics, grade and why; how many of
-- them are in the table.
local function points(st, sweep, source, said, most)
  local params = results.params(st, sweep.id)
  local directions = results.directions(st, sweep.id)
  local phases, metrics, names, small = {}, {}, {}, {}
  for name in pairs(directions) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if directions[name .. '_p95'] then
      phases[#phases + 1] = name
      small[name .. '_first'] = true
      for _, pair in ipairs(schema.PHASE_COLUMNS) do small[name .. pair[1]] = true end
      for _, pair in ipairs(schema.COLD_COLUMNS) do small[name .. pair[1]] = true end
    end
  end
  for _, name in ipairs(names) do
    if not small[name] then metrics[#metrics + 1] = name end
  end
  local goal = said.goal
  local order = source:first(said, goal and goal.measured or phases[1], ROWS)
  local heads, kinds = { 'trial' }, { 'n' }
  local function head(name, kind)
    heads[#heads + 1] = cut(name, NAME)
    kinds[#heads] = kind
  end
  for _, name in ipairs(params) do head(name, 'n') end
  for _, name in ipairs(phases) do head(name, 'n') head('95 %', 'n') end
  for _, name in ipairs(metrics) do head(name, 'n') end
  head 'grade'
  head('why', 't')
  local cells = {}
  for i = 1, #order do
    local row, line = order[i], { order[i].trial }
    local at = 1
    local function add(v)
      at = at + 1
      line[at] = v
    end
    for _, name in ipairs(params) do add(word(row[name])) end
    for _, name in ipairs(phases) do
      -- where a parameter has the name of a phase, in a file of somebody else's, it is what stands
      -- there
      local value, lo, hi = number(row[name]), number(row[name .. '_lo']),
        number(row[name .. '_hi'])
      add(value and unit.format('ns', value))
      add(lo and hi and ('%s to %s'):format(unit.format('ns', lo), unit.format('ns', hi)))
    end
    for _, name in ipairs(metrics) do add(word(row[name])) end
    add(row.grade)
    add(cut(flag_words(row.flags), 300))
    cells[i] = line
  end
  local text, shown = html.table(heads, cells, kinds, most)
  return text, shown
end

-- All points as a file to keep; nil where it would not fit.
local function csv(st, sweep, n)
  if n * #query.columns(st, sweep.name) * 4 > CSV_MOST then return nil end
  local found = query.all(st, sweep.name)
  if #found.lines * #found.titles * 4 > CSV_MOST then return nil end
  local text = format.text(found, 'csv')
  if #text * 4 / 3 > CSV_MOST then return nil end
  return ('<p><a download="%s.csv" href="%s">All points as CSV</a> (%s, %d columns; times in '
    .. 'ns)</p>'):format(html.escape((sweep.name:gsub('[^%w_.-]', '_'))),
    html.data('text/csv', text), plain.count(#found.lines, 'row'), #found.titles)
end

-- -- What went wrong ------------------------------------------------------------------------------

local FAILED_STATES = { 'oom', 'timeout', 'error', 'crashed', 'cancelled', 'infeasible' }

local function failures(source, by, params)
  local wanted, n = {}, 0
  for _, state in ipairs(FAILED_STATES) do
    wanted[state], n = true, n + (by[state] or 0)
  end
  if n == 0 then return '' end
  local list = source:failed(wanted, FAILED)
  local counts, cells = {}, {}
  for _, state in ipairs(FAILED_STATES) do
    if by[state] then counts[#counts + 1] = ('%d %s'):format(by[state], state) end
  end
  for i = 1, #list do
    local row, label = list[i], {}
    for _, name in ipairs(params) do label[name] = row[name] end
    cells[i] = { row.trial, cut(require('ridge.sweep.space').label(label), 200), row.state,
      row.reason and cut(row.reason, MESSAGE) or nil }
  end
  return table.concat({ html.p(table.concat(counts, ', ') .. '.'),
    html.table({ 'trial', 'point', 'how', 'message' }, cells, { 'n', 't', nil, 't' }),
    n > #cells and html.p(('%d more are not listed.'):format(n - #cells), 'muted') or '' },
    '\n')
end

local function disturbances(grades, n)
  local names = {}
  for name in pairs(n) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    if n[a] ~= n[b] then return n[a] > n[b] end
    return a < b
  end)
  local items, words = {}, {}
  for i, name in ipairs(names) do
    if i > 40 then break end
    items[i] = { cut(flag_words(name), 200), plain.count(n[name], 'point') }
  end
  for _, grade in ipairs { 'A', 'B', 'C', 'D' } do
    if grades[grade] then words[#words + 1] = ('%d of grade %s'):format(grades[grade], grade) end
  end
  if #words == 0 then return '' end
  return html.p(table.concat(words, ', ')
    .. '. A is precise and clean, B and C have reservations, D is not to be trusted.')
    .. html.facts(items)
end

-- -- Where and how --------------------------------------------------------------------------------

local WHERE = [[/* where points ran */ SELECT m.cpu, m.cores, m.threads, m.ram, m.os, m.kernel,
    m.virt, d.kind, d.name AS device, b.ridge, b.git, b.dirty, b.compiler, e.governor, e.vars,
    o.n, o.first, o.last
  FROM (SELECT a.env_id, count(*) AS n, min(a.began) AS first,
      max(coalesce(a.ended, a.began)) AS last
    FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
    WHERE t.sweep_id = ? AND a.env_id IS NOT NULL GROUP BY a.env_id) o
  JOIN main.env e ON e.id = o.env_id JOIN main.machine m ON m.id = e.machine_id
  JOIN main.build b ON b.id = e.build_id JOIN main.device d ON d.id = e.device_id
  ORDER BY o.n DESC LIMIT 10]]

local WHAT = [[/* what was run */ SELECT s.args, s.space, s.seed, s.strategy, s.rules, r.name,
    r.source, p.json AS protocol, p.version
  FROM main.sweep s JOIN main.recipe r ON r.id = s.recipe_id
  JOIN main.protocol p ON p.id = s.protocol_id WHERE s.id = ?]]

local function day(us) return us and os.date('!%Y-%m-%d %H:%M UTC', us / 1e6) or nil end

local function machine(st, sweep)
  local parts, rows = {}, st.db:look(WHERE, sweep.id)
  for _, r in ipairs(rows) do
    parts[#parts + 1] = html.facts {
      { 'Machine', ('%s, %s cores, %s threads%s'):format(r.cpu, r.cores or '?', r.threads or '?',
        r.ram and ', ' .. unit.format('bytes', r.ram) or '') },
      { 'Device', r.kind ~= 'cpu' and r.device or nil },
      { 'System', ('%s, Linux %s%s'):format(r.os or '?', r.kernel or '?',
        r.virt and r.virt ~= 'none' and ', ' .. r.virt or '') },
      { 'Settings', cut(('governor %s; %s'):format(r.governor or 'unknown', r.vars), 600) },
      { 'ridge', ('%s, commit %s%s, %s'):format(r.ridge, r.git or 'unknown',
        r.dirty == 1 and ' with changes' or '', r.compiler or '?') },
      { 'Measured', ('%s to %s, %s'):format(day(r.first), day(r.last),
        plain.count(r.n, 'point')) } }
  end
  return table.concat(parts, '\n'), rows[1]
end

-- The commands that make it again.
local function again(sweep, what, ran)
  local lines = {}
  if ran and ran.git then lines[1] = ('git checkout %s'):format(shell(ran.git)) end
  if what.source ~= '' then
    lines[#lines + 1] = ('# the recipe below as %s'):format(plain.line(what.name or 'recipe.lua'))
  end
  local args, words = canonical.decode(what.args), {}
  for name, v in pairs(type(args) == 'table' and args or {}) do
    local option = shell((tostring(name):gsub('_', '-')))
    if type(v) == 'boolean' then
      words[#words + 1] = (v and '--' or '--no-') .. option
    elseif type(v) ~= 'table' then
      words[#words + 1] = ('--%s %s'):format(option, shell(v))
    end
  end
  table.sort(words)
  -- what was typed of the space: the recipe alone would run another one
  local typed, rules = {}, canonical.decode(what.rules)
  for _, each in ipairs(type(rules) == 'table' and type(rules.typed) == 'table' and rules.typed
      or {}) do
    typed[#typed + 1] = ' ' .. shell(each)
  end
  lines[#lines + 1] = ('ridge sweep %s%s%s'):format(shell(what.name or 'recipe.lua'),
    table.concat(typed), #words > 0 and ' -- ' .. table.concat(words, ' ') or '')
  lines[#lines + 1] = ('ridge report %s -o %s.html'):format(shell(sweep.name),
    (sweep.name:gsub('[^%w_.-]', '_')))
  return lines
end

-- -- The page -------------------------------------------------------------------------------------

--- The page.
---@param st table an open store
---@param name string the sweep
---@param opt table|nil wanted: what is best, as of ridge.best's `for`
---@return string html
---@return string[] left what was left out: sentences
function M.page(st, name, opt)
  local sweep = query.sweep(st, name)
  local params, wanted = results.params(st, sweep.id), opt and opt.wanted
  local source = sources.of(st, sweep, wanted or answer.usual(results.directions(st, sweep.id)))
  local said = answer.of(st, sweep, source, wanted)
  local states, grades, disturbed = source:counts()
  local n = states.ok or 0
  local what = st.db:row(WHAT, sweep.id)
  local left = {}
  local where, ran = machine(st, sweep)
  local file = csv(st, sweep, source.n)
  local drawings, undrawn, bytes, some, reason = pictures(st, sweep, source, said, n,
    PICTURES_MOST + (source.columns and not file and MORE or 0))
  if reason then left[1] = 'pictures: ' .. cut(plain.line(reason), SENTENCE) end
  for _, kind in ipairs(undrawn) do
    left[#left + 1] = ('the picture %s: ridge plot %s %s'):format(kind, kind, shell(sweep.name))
  end
  if some then
    left[#left + 1] = ('points in pictures, as each says: ridge plot %s %s draws all'):format(
      KINDS[1], shell(sweep.name))
  end
  local list, listed = points(st, sweep, source, said,
    M.MOST - REST - bytes - (file and #file or 0))
  file = n > 0 and file
  if n > 0 and not file then
    left[#left + 1] = ('the table of all points: ridge export %s --as csv -o %s.csv'):format(
      shell(sweep.name), (sweep.name:gsub('[^%w_.-]', '_')))
  end
  if n > listed then
    left[#left + 1] = ('%d of %d points in the table of points'):format(n - listed, n)
  end
  local noted = {}
  local all = notes.of(st, sweep)
  if #all > NOTES then
    left[#left + 1] = ('%s: ridge note %s'):format(plain.count(#all - NOTES, 'older note'),
      shell(sweep.name))
  end
  for i = math.max(1, #all - NOTES + 1), #all do
    noted[#noted + 1] = { os.date('!%Y-%m-%d', all[i].at / 1e6) or 'no date',
      cut(all[i].text, NOTE) }
  end
  local lead = ('%s measured of %s%s'):format(n, plain.count(source.n, 'point'),
    ran and (', %s, %s'):format(ran.kind == 'cpu' and ran.cpu or ran.device, day(ran.last)) or '')
  local body = { ('<h1>%s</h1>'):format(html.escape(sweep.name)), html.p(lead, 'muted'),
    html.p(cut(table.concat(said.sentences, ' '), 3 * SENTENCE), 'answer'),
    html.section('Pictures', unpack(drawings)),
    html.section('Points', list, file),
    html.section('Failures', failures(source, states, params)),
    html.section('How far to trust it', disturbances(grades, disturbed)),
    html.section('Notes', html.facts(noted)),
    html.section('Where', where),
    html.section('How', html.facts {
      { 'Protocol', ('version %d: %s'):format(what.version, cut(what.protocol, 2000)) },
      { 'Space', cut(what.space, 4000) }, { 'Arguments', cut(what.args, 2000) },
      { 'Order', ('%s, seed %d'):format(what.strategy, what.seed) } },
      what.source ~= '' and html.folded('Recipe ' .. (what.name or ''), cut(what.source, SOURCE))
        or ''),
    html.section('Again', html.commands(again(sweep, what, ran))),
    #left > 0 and html.section('Left out', html.p(table.concat(left, '; ') .. '.')) or '',
    html.p(('Made by ridge %s from %s.'):format(require('ridge').version(),
      st.path:match '[^/]+$'), 'muted') }
  return html.page(sweep.name .. ' · ridge', body), left
end

return M
