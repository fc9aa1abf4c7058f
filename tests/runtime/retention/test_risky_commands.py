from __future__ import annotations

import re
import time

import pytest

from holdfast.runtime.retention.risky_commands import risky

RISKY = """
rm -r build
rm -rf /tmp/x
rm -f -R x
rm --recursive x
/bin/rm -rf x
sudo rm -rf x
sudo -u bob rm -fr x
cd x && rm -rf *
true; rm -r x
ls | xargs rm -rf
for f in *; do rm -r $f; done
if test -d x; then rm -r x; fi
bash -c 'cd x; rm -rf y'
rm -rf "my folder"
FOO=1 BAR=2 rm -r x
(rm -r x)
$(rm -r x)
`rm -r x`
! rm -r x
timeout 5 rm -r x
find . -name '*.pyc' -delete
find . -type f -exec rm {} +
git reset --hard
git reset HEAD~3 --hard
git -C "some dir" reset --hard origin/main
git clean -fdx
git rebase -i HEAD~3
git checkout -- .
git checkout .
git checkout -f main
git restore src
git stash drop
git branch -D topic
git push --force
git push -f origin main
pip install flask
pip3 install -U pip
pip install -r requirements.txt
python -m pip install .
python3 -m pip uninstall -y x
.venv/bin/pip install .
uv pip install x
uv add x
poetry add x
apt install -y curl
apt-get -y install curl
sudo apt-get update && sudo apt-get install curl
apt-get remove x
dpkg -i x.deb
dnf install x
apk add x
pacman -Syu
npm install
npm i express
npm ci
pnpm add x
yarn
yarn add x
cargo install x
gem install x
psql -c 'DROP TABLE users'
psql <<< "drop   database x;"
sqlite3 x.db 'DELETE FROM users'
mysql -e 'ALTER TABLE x ADD y int'
echo 'truncate table x' | psql
dd if=/dev/zero of=disk.img bs=1M
mkfs.ext4 /dev/sdb1
mkfs /dev/sdb1
shred x
truncate -s 0 log
chmod -R 777 .
chown -R me:me /srv
chgrp --recursive x y
rsync -a --delete a/ b/
redis-cli flushall
python manage.py migrate
./manage.py migrate
alembic upgrade head
!pip install numpy
import shutil; shutil.rmtree('x')
cat image > /dev/sda
"""
HARMLESS = """
ls -r
rm file
rm -f file
grep -r rm .
cat README.md
git status
git commit -m fix
git log --reverse
git checkout main
git restore --staged x
git fetch --all
git push origin main
git clean -n
git reset HEAD x
pip list
pip --version
python -m pytest
npm test
npm run build
yarn build
apt list --installed
apt-cache search rm
find . -name x
dd --version
chmod +x run
chown me x
echo hello > file
make -r
docker ps
cargo build
go test ./...
select * from t
formatted = x
python -c 'print(1)'
"""


@pytest.mark.parametrize("command", RISKY.strip().splitlines())
def test_destroying_or_installing_is_risky(command: str) -> None:
    """Written out anywhere in the command, it is found, and named."""
    assert risky(command)


@pytest.mark.parametrize("command", HARMLESS.strip().splitlines())
def test_reading_and_building_is_not_risky(command: str) -> None:
    """Everyday commands cost no snapshot."""
    assert risky(command) is None


def test_a_risky_command_has_a_short_name() -> None:
    """The name is the beginning of the very command, without its path."""
    assert risky("cd /x && sudo /bin/rm -rf build dist cache more") == "rm -rf build dist"
    assert len(risky("rm -r " + "x" * 1000) or "") <= 60


def test_a_line_that_continues_is_one_command() -> None:
    """A backslash at the end of a line does not hide what follows."""
    assert risky("rm \\\n  -rf x")
    assert risky("echo a\nrm -r x")


def test_the_users_patterns_are_searched() -> None:
    """In the text as it is; the first match is the name."""
    assert risky("./deploy prod", [r"deploy\s+prod"]) == r"deploy\s+prod"
    assert risky("./deploy test", [r"deploy\s+prod"]) is None


@pytest.mark.parametrize(
    "text", ["rm " * 20000, "sudo " * 13000, "'\"" * 30000, "git " + "-c " * 20000, "$(" * 9999]
)
def test_no_command_takes_long(text: str) -> None:
    """The time only grows with the length."""
    begin = time.process_time()
    risky(text)

    assert time.process_time() - begin < 5  # processor time; a quadratic walk would take minutes


def test_only_known_programs_are_checked() -> None:
    """Words within others are not commands."""
    assert re.search("rm", "alarm -r")
    assert risky("alarm -r") is None
