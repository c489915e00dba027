-- SPDX-License-Identifier: MIT
--- %history, %save and %edit: what was typed.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local history = require 'ridge.repl.history'
local output = require 'ridge.ffi.output'
local place = require 'ridge.store.place'

local SHOWN = 20

local function show(session, request)
  local words = request.rest
  local limit = tonumber(words) or (words == '' and SHOWN) or math.huge
  local text = tonumber(words) and '' or words
  -- with words, what earlier sessions typed is searched too
  local list = text ~= '' and history.read(history.path()) or session.typed
  if #list == 0 then list = session.typed end
  local found = {}
  for i = #list, 1, -1 do
    if #found >= limit then break end
    if list[i]:find(text, 1, true) then table.insert(found, 1, i) end
  end
  if #found == 0 then session.write 'nothing was typed that fits\n' end
  for _, i in ipairs(found) do
    session.write(colour.paint('dim', ('%5d  '):format(i))
      .. list[i]:gsub('\n', '\n       ') .. '\n')
  end
end

-- Lua, and no line for the shell, of help or of commands such as this one.
local function is_code(entry) return not entry:find '^%s*[%%!?]' end

local function last_code(typed)
  for i = #typed, 1, -1 do
    if is_code(typed[i]) then return typed[i] end
  end
  return ''
end

local function save(session, request)
  local path, count = request.rest:match '^(%S+)%s*(%d*)$'
  if not path then blame.raise '%save: a path is expected, then how many entries, if not all' end
  local kept = {}
  for i = 1, #session.typed do
    local entry = session.typed[i]
    if is_code(entry) then kept[#kept + 1] = entry end -- the file shall run
  end
  local first = count ~= '' and math.max(1, #kept - tonumber(count) + 1) or 1
  if place.exists(path) then
    blame.raise(('%%save: there is a file %s already'):format(path))
  end
  local lines = {}
  for i = first, #kept do lines[#lines + 1] = kept[i] .. '\n' end
  output.write(path, '%save', table.concat(lines))
  local n = #kept - first + 1
  session.write(('%d %s in %s\n'):format(n, n == 1 and 'entry' or 'entries', path))
end

local function edit(session, request)
  local path = request.rest
  local own = path == ''
  if own then
    path = os.tmpname()
    local file = assert(io.open(path, 'w'))
    file:write(last_code(session.typed), '\n')
    file:close()
  end
  local editor = os.getenv 'VISUAL' or os.getenv 'EDITOR' or 'vi'
  local status = os.execute(("%s '%s'"):format(editor, path:gsub("'", "'\\''")))
  if status ~= 0 then
    if own then os.remove(path) end
    blame.raise(("%%edit: '%s' ended with status %d; nothing was run"):format(editor,
      bit.rshift(status, 8)))
  end
  local file, reason = io.open(path, 'r')
  if not file then blame.raise('%edit: ' .. reason) end
  local text = file:read '*a'
  file:close()
  if own then
    os.remove(path)
    session.typed[#session.typed + 1] = (text:gsub('%s+$', ''))
  end
  session:execute(path, text)
end

return {
  history = {
    usage = '%history [N | TEXT]', takes = 'words', run = show,
    about = ('what was typed last\nN entries of this session, %d if not said; or all that contain '
      .. 'TEXT, of earlier sessions too.'):format(SHOWN),
  },
  save = {
    usage = '%save FILE [N]', takes = 'file', run = save,
    about = 'write what was typed to a new file\nThe Lua of this session, or its last N entries.',
  },
  edit = {
    usage = '%edit [FILE]', takes = 'file', run = edit,
    about = 'edit the last entry, or a file, and run it\nThe editor is $VISUAL or $EDITOR.',
  },
}
