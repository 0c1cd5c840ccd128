"""Certificates for tests: an authority of their own, made with the openssl command."""

import os
import ssl
import subprocess

EXTENSIONS = "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:{name}.test\n{more}"


def openssl(*words):
    done = subprocess.run(["openssl", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words}: {done.stderr.decode()}")


class Authority:
    """An authority in a folder, and the certificates that it signs: NAME.pem and NAME.key."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.path(name, "key"), "-out", self.path(name), "-subj", f"/CN={name}",
                "-days", "30")

    def path(self, name, kind="pem"):
        return os.path.join(self.folder, f"{name}.{kind}")

    @property
    def file(self):
        return self.path(self.name)

    def sign(self, name, days=30, common=None):
        """Makes NAME.pem and NAME.key; what was there is replaced in one step each."""
        key, request, cert = (self.path(name, kind) for kind in ("key", "csr", "pem"))
        with open(self.path(name, "ext"), "w", encoding="ascii") as file:
            file.write(EXTENSIONS.format(name=name, more=""))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key + ".new", "-out", request, "-subj", f"/CN={common or name}")
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey",
                self.path(self.name, "key"), "-CAcreateserial", "-days", str(days),
                "-extfile", self.path(name, "ext"), "-out", cert + ".new")
        os.chmod(key + ".new", 0o600)
        os.rename(key + ".new", key)
        os.rename(cert + ".new", cert)
        return cert, key

    def client(self, cert=None, alpn=None, newest=None, oldest=None):
        """What a client has that trusts this authority."""
        context = ssl.create_default_context(cafile=self.file)
        if cert:
            context.load_cert_chain(self.path(cert), self.path(cert, "key"))
        if alpn:
            context.set_alpn_protocols(alpn)
        if newest:
            context.maximum_version = newest
        if oldest:
            context.minimum_version = oldest
        return context
